#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nestor/actors/codec.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/remote/actor_types.h>
#include <nestor/actors/runtime.h>
#include <nestor/comm/link.h>
#include <nestor/comm/ucx.h>

namespace nestor::actors::remote {

/// What a process tells the cluster of itself when it joins.
struct NodeInfo {
  std::string name;  ///< unique in the cluster: "lane3", "agent0"; a client's is made unique by the head
  std::string kind;  ///< head | agent | worker | actors | client
  std::string host;
  std::int64_t pid = 0;
  std::int32_t lane = -1;
  std::uint64_t generation = 0;          ///< of a restarted worker: counts its starts
  std::string endpoint{}, public_key{};  ///< where other members may reach it directly; empty: by the head alone
  std::int32_t cpus = 0;                 ///< an agent's: cores of its host
  template <class Visit>
  void fields(Visit&& visit) {
    visit(name, kind, host, pid, lane, generation, endpoint, public_key, cpus);
  }
};

/// What a node's owner is told, in the link's thread: post to an actor and return.
struct NodeEvents {
  /// Head: may a process with this key's name enter under this description? The text is why not; empty: it may.
  std::function<std::string(const NodeInfo&, const std::string& key_name)> admit;
  std::function<void(const NodeInfo&)> joined;
  /// Head: the link to a node is gone; calls under way still wait for `declare_lost`, so that whoever watched the
  /// process can say what became of it. Without this hook the node is declared lost at once.
  std::function<void(const NodeInfo&, const std::string& cause)> disconnected;
  /// Member: the link to the head is gone, or came back (empty cause).
  std::function<void(const std::string& cause)> head_link;
  /// Something for the log. Any thread.
  std::function<void(const std::string& text)> notice;
};

class NodeCore;

/// A process's place in a cluster: its runtime's actors, reachable by the others, and the others' actors, reachable as
/// handles like its own. The head listens; everybody else has a link to the head, which passes messages on, and links
/// of its own to those members that listen too. Handles of other processes' actors are proxies: a call is sent at once
/// in the caller's thread, and fails with the cause when the actor, its process or the link to it dies. Any thread.
class Node {
 public:
  struct Head {
    std::string endpoint;
    comm::LinkKeys keys;
    std::map<std::string, std::string> allowed;  ///< public key -> its owner's name
  };
  struct Member {
    std::string head_endpoint, head_public_key;
    comm::LinkKeys keys;
    std::string listen{};                          ///< an endpoint where other members may reach it; empty: none
    std::map<std::string, std::string> allowed{};  ///< ... whose keys these are
    /// Of channels for long arguments and results to and from members reached without the head. Without it, and where
    /// the two have no transport in common, these travel in parts over the link. The secret is each channel's own.
    std::optional<comm::UcxOptions> transport{};
  };

  Node(Runtime& runtime, NodeInfo self, Head head, NodeEvents events = {}, comm::LinkOptions link = {});
  /// Connects in the background; `wait_joined` waits for it.
  Node(Runtime& runtime, NodeInfo self, Member member, NodeEvents events = {}, comm::LinkOptions link = {});
  /// Leaves: the others hear that it left; its proxies die.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// As the head knows it, once joined.
  std::string name() const;
  /// Where others connect (head).
  std::string endpoint() const;
  /// Member: throws Error saying which step failed (name, refused, credentials, version) when not joined at the limit.
  void wait_joined(std::chrono::nanoseconds limit);

  /// Actor types that others may spawn here. Before anybody does.
  ActorTypes& types();

  /// The actor of that name on that node ("head" is the head), looked up. Throws Error where there is none, naming
  /// those there are, or where it is no T; CallTimeout.
  template <class T>
  Handle<T> find(const std::string& node, const std::string& actor, std::chrono::nanoseconds limit = kFindLimit) {
    return Handle<T>(find_cell(node, actor, detail::actor_type<T>(), limit));
  }
  /// The same without waiting: where there is no such actor the handle is found dead.
  template <class T>
  Handle<T> attach(const std::string& node, const std::string& actor) {
    return Handle<T>(attach_cell(node, actor, detail::actor_type<T>()));
  }
  /// Spawns a T on that node, from T::SpawnArguments. Throws Error where that node does not know the type, naming those
  /// that it does; CallFailed with what the constructor threw.
  template <class T, class... Args>
  Handle<T> spawn(const std::string& node, const ActorOptions& options, Args&&... args) {
    Encoder encoder(this);
    encoder(SpawnArgumentsOf<T>(std::forward<Args>(args)...));
    spawn_on(node, detail::type_name<T>(), options, encoder.take());
    return find<T>(node, options.name);
  }

  /// Ends an actor of that node, where it lives, as Handle::kill does.
  void end(const std::string& node, const std::string& actor, const std::string& cause);

  /// Head: calls to actors of that node fail from now on, everywhere, with this cause; its link is closed.
  void declare_lost(const std::string& node, const std::string& cause);
  /// The same, unless another process has taken its name meanwhile.
  void declare_lost(const NodeInfo& process, const std::string& cause);
  /// Head: those joined and not lost.
  std::vector<NodeInfo> nodes() const;
  comm::LinkCounters counters() const;
  /// Of arguments and results that left here by UCX.
  std::uint64_t bulk_bytes() const;

  /// "NODE" and the actor's name: what a handle is sent as.
  std::pair<std::string, std::string> address_of(const std::shared_ptr<detail::Cell>& cell) const;
  std::shared_ptr<detail::Cell> attach_cell(const std::string& node, const std::string& actor,
                                            const detail::ActorType& type);

  static constexpr std::chrono::seconds kFindLimit{10};

 private:
  std::shared_ptr<detail::Cell> find_cell(const std::string& node, const std::string& actor,
                                          const detail::ActorType& type, std::chrono::nanoseconds limit);
  void spawn_on(const std::string& node, const std::string& type, const ActorOptions& options, std::string arguments);

  std::shared_ptr<NodeCore> core_;
};

}  // namespace nestor::actors::remote

namespace nestor::actors {

/// A handle is sent as its actor's address, and arrives as a handle of the receiver's own.
template <class T>
struct Codec<Handle<T>> {
  static void encode(Encoder& encoder, const Handle<T>& value) {
    if (encoder.node() == nullptr) throw Error("call", "a handle cannot be sent outside of a cluster");
    encoder(value ? encoder.node()->address_of(value.shared_cell()) : std::pair<std::string, std::string>());
  }
  static void decode(Decoder& decoder, Handle<T>& value) {
    std::pair<std::string, std::string> address;
    decoder(address);
    if (decoder.node() == nullptr) throw Error("call", "a handle cannot arrive outside of a cluster");
    value = address.second.empty() ? Handle<T>() : decoder.node()->template attach<T>(address.first, address.second);
  }
};

}  // namespace nestor::actors
