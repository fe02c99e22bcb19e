#pragma once
// Inside actors/remote/: what a Node and its proxies share. Not for others.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include <nestor/actors/remote/bulk.h>
#include <nestor/actors/remote/direct.h>
#include <nestor/actors/remote/node.h>
#include <nestor/actors/remote/outbox.h>
#include <nestor/actors/remote/transfers.h>
#include <nestor/comm/block_pool.h>

namespace nestor::wire {  // envelope.proto
class Call;
class Envelope;
class Failure;
class Hello;
class Reply;
}  // namespace nestor::wire

namespace nestor::actors::remote {

class NodeCore;
struct Letter;

/// An actor of another process: sends its calls, keeps them until they are answered.
class RemoteActor final : public detail::Elsewhere {
 public:
  RemoteActor(std::weak_ptr<NodeCore> core, std::string node, std::string actor)
      : core_(std::move(core)),
        node_(std::move(node)),
        actor_(std::move(actor)),
        direct_address_(remote::direct_address(node_)) {}

  void post(const std::shared_ptr<detail::Task>& task) override;
  void end(const std::string& cause, bool drain, std::function<void()> ended) override;
  void abandon(const std::exception_ptr& error) override;
  void cancelled(const detail::Task& task) override;
  std::size_t load() const override;
  void answered(Letter& letter, Node* node);
  /// News of the actor that came from `address`: is it the way that its answers come, so that nothing is overtaken?
  bool comes_by(const std::string& address) const;
  /// Its direct link is gone: calls under way get no answer. They fail with the process's cause of death, or by
  /// `fail_lost` where it lives.
  void direct_lost();
  /// A call's arguments may not have arrived: it fails likewise.
  void argument_lost(std::uint64_t id);
  void fail_lost(const std::string& cause);

  const std::string& node() const { return node_; }
  const std::string& actor() const { return actor_; }

  /// Calls under way to one actor; a caller beyond that waits, as for a full mailbox.
  static constexpr std::size_t kUnderWay = 10'000;
  /// ... and bytes of their arguments, unless it is one call alone.
  static constexpr std::size_t kBytesUnderWay = std::size_t{256} << 20;
  static constexpr std::chrono::seconds kSendLimit{30};

 private:
  struct UnderWay {
    std::shared_ptr<detail::Task> task;
    std::size_t bytes = 0;
  };
  std::shared_ptr<detail::Task> take(std::uint64_t id);
  /// Chooses the link while nothing is under way, so that calls keep their order.
  void choose_route(NodeCore& core);
  const std::string& address() const { return direct_ ? direct_address_ : node_; }

  const std::weak_ptr<NodeCore> core_;
  const std::string node_, actor_, direct_address_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::unordered_map<std::uint64_t, UnderWay> under_way_;
  std::size_t bytes_ = 0;
  std::size_t waiting_ = 0;  ///< callers
  std::vector<std::uint64_t> lost_;
  std::shared_ptr<DirectLink> direct_;  ///< null: by the head
  std::uint64_t connection_ = 0;        ///< of `direct_`
  std::exception_ptr dead_;
};

class NodeCore final : public comm::LinkHandler, public std::enable_shared_from_this<NodeCore> {
 public:
  using OnReply = std::function<void(const wire::Reply& reply)>;

  NodeCore(Runtime& runtime, NodeInfo self, NodeEvents events, Node* node);
  ~NodeCore() override;
  void start(const Node::Head& head, const comm::LinkOptions& link);
  void start(const Node::Member& member, const comm::LinkOptions& link);
  /// Closes the link. Afterwards nothing is sent and nothing arrives.
  void stop();

  void connected(const std::string& peer) override;
  void received(const std::string& peer, std::string message) override;
  void lost(const std::string& peer, const std::string& cause) override;

  /// Empty, or why it could not be sent. Fills in the sender. `alone`: nothing else is expected to be sent soon.
  std::string send(wire::Envelope& envelope, bool alone = true);
  std::string send(Letter& letter, bool alone);
  /// Sends a request to a node; `then` is called once with its reply, or with a failure.
  /// `request` waits for it and throws what the failure says, or CallTimeout.
  void ask(wire::Envelope& envelope, std::uint64_t id, OnReply then);
  std::string request(wire::Envelope& envelope, std::uint64_t id, const std::string& what,
                      std::chrono::nanoseconds limit);
  std::uint64_t next_id() { return ids_.fetch_add(1, std::memory_order_relaxed); }

  std::shared_ptr<detail::Cell> proxy(const std::string& node, const std::string& actor, const detail::ActorType& type);
  /// Proxies of that node's actors die and requests to it fail; all nodes' where `node` is empty.
  void forget(const std::string& node, const std::string& cause);
  /// `only`: unless another process has taken its name meanwhile.
  void declare_lost(const std::string& node, const std::string& cause, const NodeInfo* only = nullptr);

  std::uint64_t bulk_bytes() const { return bulk_.bytes(); }

  // Direct links (direct.cc).
  void received_directly(const std::string& address, const std::string& message);
  void direct_server_lost(const std::string& address);
  void direct_link_lost(const std::string& node, const std::string& cause);
  void direct_changed();
  /// Opens a link to that node in the background, where it has an address.
  void open_direct(const std::string& node);
  void await_direct(const std::string& node, std::chrono::nanoseconds limit);
  std::shared_ptr<DirectLink> direct_to(const std::string& node);

  Runtime& runtime_;
  const std::shared_ptr<detail::Registry> registry_ = runtime_.registry();  ///< outlives the runtime
  const bool head_;
  NodeInfo self_;  ///< under mutex_ once the link is up
  const NodeEvents events_;
  Node* const node_;
  const std::shared_ptr<comm::BlockPool> memory_ = std::make_shared<comm::BlockPool>(Bulk::kKeptMemory);
  ActorTypes types_;
  comm::LinkServer* server_ = nullptr;  ///< head; valid until the link's thread has ended
  comm::LinkClient* client_ = nullptr;  ///< member
  Handle<Actor> spawner_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool joined_ = false;
  std::string refused_;                                   ///< by the head: why
  std::map<std::string, NodeInfo> joined_nodes_;          ///< head: by name
  std::map<std::string, std::string> peer_of_, node_of_;  ///< head: name -> link peer and back
  std::uint64_t clients_ = 0;

 private:
  struct Waiting {
    std::string node;
    OnReply then;
  };
  struct Direct {
    std::shared_ptr<DirectLink> link;
    bool impossible = false;
  };
  /// The process's own end is heard of from the head within this time.
  static constexpr std::chrono::seconds kObituaryWait{5};

  void serve_directly(const Node::Member& member, const comm::LinkOptions& link);
  void close_direct(const std::string& node);
  void take(wire::Envelope& envelope, const std::string& from);
  void handle(Letter& letter);
  Bulk::Hooks bulk_hooks();
  void letters_lost(const std::vector<LetterPtr>& letters, const std::string& cause);
  void handle_cancel(const wire::Envelope& envelope);
  void handle_where(const wire::Envelope& envelope);
  void handle_down(const wire::Envelope& envelope);
  std::string send_whole(wire::Envelope& envelope, bool alone);
  std::shared_ptr<Outbox> outbox(const std::string& peer);
  void close(const std::string& peer);
  comm::Status transmit(const std::string& peer, std::string message);
  void handle_call(Letter& letter);
  void handle_watch(const wire::Envelope& envelope);
  void handle_end(const wire::Envelope& envelope);
  void handle_spawn(wire::Envelope& envelope);
  void handle_reply(Letter& letter);
  void no_answer(const std::string& to, std::uint64_t id, const std::string& actor, const std::string& why);
  void handle_hello(const std::string& peer, const wire::Hello& hello);
  void forward(wire::Envelope& envelope);
  void reply(const std::string& to, std::uint64_t id, const std::string& actor, Encoded result,
             const std::exception_ptr& error, bool alone);
  /// The request or call in an envelope cannot reach its node: its sender is told.
  void undeliverable(const wire::Envelope& envelope, const std::string& why);
  void hello();

  void begin_callback() const;

  comm::LinkKeys keys_;
  comm::LinkOptions link_options_;
  Bulk bulk_;
  Transfers transfers_;
  Flusher flusher_;
  std::unique_ptr<comm::LinkServer> server_owner_;
  std::unique_ptr<comm::LinkClient> client_owner_;
  std::unique_ptr<DirectServer> direct_server_;
  std::map<std::string, Direct> direct_;                     ///< by node
  std::map<std::string, std::shared_ptr<Outbox>> outboxes_;  ///< by link peer; "" is the head
  std::atomic<bool> started_{false};
  std::shared_mutex open_;  ///< held shared while the link is used from other threads than its own
  bool closed_ = false;     ///< under open_
  std::atomic<std::uint64_t> ids_{1};
  std::unordered_map<std::uint64_t, Waiting> waiting_;
  std::map<std::pair<std::string, std::string>, std::weak_ptr<detail::Cell>> proxies_;
  std::map<std::string, std::set<std::string>> watched_;  ///< own actors, and the nodes that hear of their death
};

inline constexpr const char* kHead = "head";  ///< its node's name

/// True in the link's own thread, which must never wait for what only it can bring.
bool in_link_thread();

std::exception_ptr died(const std::string& who, const std::string& cause);
wire::Failure failure_of(const std::exception_ptr& error, const std::string& actor);
std::exception_ptr exception_of(const wire::Failure& failure);

}  // namespace nestor::actors::remote
