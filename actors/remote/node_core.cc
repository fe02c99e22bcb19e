#include <algorithm>

#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>
#include <nestor/actors/remote/letter.h>
#include <nestor/actors/remote/version.h>

namespace nestor::actors::remote {
namespace {

thread_local bool link_thread = false;

/// The id that an envelope's sender waits for; 0 where it waits for nothing.
std::uint64_t id_of(const wire::Envelope& envelope) {
  switch (envelope.body_case()) {
    case wire::Envelope::kCall:
      return envelope.call().id();
    case wire::Envelope::kWatch:
      return envelope.watch().id();
    case wire::Envelope::kEnd:
      return envelope.end().id();
    case wire::Envelope::kSpawn:
      return envelope.spawn().id();
    case wire::Envelope::kWhere:
      return envelope.where().id();
    default:
      return 0;
  }
}

}  // namespace

bool in_link_thread() {
  return link_thread;
}

NodeCore::NodeCore(Runtime& runtime, NodeInfo self, NodeEvents events, Node* node)
    : runtime_(runtime),
      head_(self.kind == "head"),
      self_(std::move(self)),
      events_(std::move(events)),
      node_(node),
      bulk_(bulk_hooks()),
      transfers_([this](wire::Envelope& envelope) { return send_whole(envelope, false); }, &bulk_) {}

NodeCore::~NodeCore() = default;

void NodeCore::start(const Node::Head& head, const comm::LinkOptions& link) {
  server_owner_ = comm::listen_link(head.endpoint, head.keys, *this, link);
  server_ = server_owner_.get();
  for (const auto& [key, owner] : head.allowed) server_->allow(key, owner);
  started_ = true;
  started_.notify_all();
}

void NodeCore::start(const Node::Member& member, const comm::LinkOptions& link) {
  keys_ = member.keys;
  link_options_ = link;
  if (member.transport) bulk_.start(*member.transport);
  if (!member.listen.empty()) serve_directly(member, link);
  client_owner_ = comm::connect_link(member.head_endpoint, member.head_public_key, member.keys, *this, link);
  client_ = client_owner_.get();
  started_ = true;
  started_.notify_all();
}

void NodeCore::stop() {
  {
    std::unique_lock lock(open_);
    closed_ = true;
  }
  flusher_.stop();
  bulk_.stop();
  std::map<std::string, Direct> links;
  {
    std::lock_guard lock(mutex_);
    links.swap(direct_);
  }
  for (auto& [node, direct] : links)
    if (direct.link) direct.link->close();
  if (direct_server_) direct_server_->close();
  server_owner_.reset();
  client_owner_.reset();
  forget("", "this process has left the cluster");
}

/// The link may call before it has been handed to us.
void NodeCore::begin_callback() const {
  link_thread = true;
  started_.wait(false);
}

comm::Status NodeCore::transmit(const std::string& peer, std::string message) {
  const auto pass = [&]() -> comm::Status {
    if (head_) return server_->send(peer, std::move(message));
    if (peer.empty()) return client_->send(std::move(message));
    if (peer.front() == '@') {
      const auto server = direct_server_ ? direct_server_->link() : nullptr;
      if (server) return server->send(peer.substr(1), std::move(message));
    } else if (const auto direct = direct_to(node_of(peer))) {
      if (const auto link = direct->link()) return link->send(std::move(message));
    }
    return {comm::Code::peer_lost, "the link to it is gone"};
  };
  if (link_thread) return pass();
  std::shared_lock lock(open_);
  if (closed_) return {comm::Code::peer_lost, "this process has left the cluster"};
  return pass();
}

void NodeCore::close(const std::string& peer) {
  if (link_thread) return server_->close(peer);
  std::shared_lock lock(open_);
  if (!closed_) server_->close(peer);
}

std::shared_ptr<Outbox> NodeCore::outbox(const std::string& peer) {
  std::lock_guard lock(mutex_);
  auto& box = outboxes_[peer];
  if (!box)
    box = std::make_shared<Outbox>(flusher_,
                                   [this, peer](std::string message) { return transmit(peer, std::move(message)); });
  return box;
}

std::string NodeCore::send(wire::Envelope& envelope, bool alone) {
  Letter letter{std::move(envelope), {}, {}};
  return send(letter, alone);
}

std::string NodeCore::send(Letter& letter, bool alone) {
  if (transfers_.take(letter)) return {};
  flatten(letter);
  return send_whole(letter.envelope, alone);
}

std::string NodeCore::send_whole(wire::Envelope& envelope, bool alone) {
  std::string peer;
  if (head_) {
    std::lock_guard lock(mutex_);
    const auto found = peer_of_.find(envelope.to());
    if (found == peer_of_.end()) return "node " + envelope.to() + " is not in the cluster";
    peer = found->second;
    if (envelope.from().empty()) envelope.set_from(kHead);
  } else if (is_direct(envelope.to())) {
    peer = envelope.to();
    envelope.clear_to();
  }
  const auto box = outbox(peer);
  return box->send(envelope.SerializeAsString(), alone);
}

void NodeCore::ask(wire::Envelope& envelope, std::uint64_t id, OnReply then) {
  {
    std::lock_guard lock(mutex_);
    waiting_[id] = {node_of(envelope.to()), std::move(then)};
  }
  const std::string failure = send(envelope);
  if (failure.empty()) return;
  wire::Reply reply;
  *reply.mutable_failure() = failure_of(died(envelope.to(), failure), envelope.to());
  reply.set_id(id);
  Letter answer;
  *answer.envelope.mutable_reply() = std::move(reply);
  handle_reply(answer);
}

std::string NodeCore::request(wire::Envelope& envelope, std::uint64_t id, const std::string& what,
                              std::chrono::nanoseconds limit) {
  auto promise = std::make_shared<Promise<std::string>>();
  auto future = promise->future();
  ask(envelope, id, [promise](const wire::Reply& reply) {
    if (reply.has_failure()) {
      promise->fail(exception_of(reply.failure()));
    } else {
      promise->set_value(reply.result());
    }
  });
  if (!future.wait_for(limit)) {
    std::lock_guard lock(mutex_);
    waiting_.erase(id);
    throw CallTimeout(what, "node " + envelope.to() + " did not answer within " + detail::in_words(limit));
  }
  return future.get();
}

// --- the link ---

void NodeCore::connected(const std::string&) {
  begin_callback();
  if (head_) return;  // it says hello first
  hello();
}

void NodeCore::hello() {
  wire::Envelope envelope;
  wire::Hello& hello = *envelope.mutable_hello();
  Encoder about;
  {
    std::lock_guard lock(mutex_);
    about(self_);
  }
  hello.set_about(about.take());
  hello.set_version(version());
  if (self_.kind != "client") hello.set_program(program_digest());
  static_cast<void>(client_->send(envelope.SerializeAsString()));
}

void NodeCore::received(const std::string& peer, std::string message) {
  begin_callback();
  std::string from;
  if (head_) {
    std::lock_guard lock(mutex_);
    if (const auto found = node_of_.find(peer); found != node_of_.end()) from = found->second;
  }
  const bool read = each_envelope(message, [&](std::string_view bytes) {
    wire::Envelope envelope;
    if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
        envelope.body_case() == wire::Envelope::BODY_NOT_SET) {
      if (head_) server_->close(peer);
      return;
    }
    if (!head_) return take(envelope, envelope.from());
    if (envelope.body_case() == wire::Envelope::kHello) return handle_hello(peer, envelope.hello());
    if (from.empty()) return server_->close(peer);
    envelope.set_from(from);  // whatever it says itself
    if (envelope.to().empty() || envelope.to() == kHead) return take(envelope, from);
    forward(envelope);
  });
  if (!read && head_) server_->close(peer);
}

void NodeCore::received_directly(const std::string& address, const std::string& message) {
  begin_callback();
  each_envelope(message, [&](std::string_view bytes) {
    wire::Envelope envelope;
    if (envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) take(envelope, address);
  });
}

void NodeCore::take(wire::Envelope& envelope, const std::string& from) {
  envelope.set_from(from);
  Letter letter;
  try {
    if (envelope.has_credit()) return transfers_.credited(from, envelope.credit());
    if (envelope.has_offer()) return bulk_.offered(from, envelope.offer());
    if (envelope.has_answer()) return bulk_.answered(from, envelope.answer());
    if (envelope.has_fence()) return bulk_.fenced(from, envelope.fence().number());
    if (!envelope.has_part()) {
      letter.envelope = std::move(envelope);
    } else if (!transfers_.arrived(envelope, &letter.envelope)) {
      return;
    }
    letter.envelope.set_from(from);
    handle(letter);
  } catch (const std::exception& error) {
    undeliverable(letter.envelope, error.what());
  }
}

void NodeCore::forward(wire::Envelope& envelope) {
  if (const std::string failure = send_whole(envelope, false); !failure.empty()) undeliverable(envelope, failure);
}

void NodeCore::undeliverable(const wire::Envelope& envelope, const std::string& why) {
  const std::uint64_t id = id_of(envelope);
  if (id == 0) return;
  const std::string actor = envelope.has_call() ? envelope.call().actor() : "";
  const std::string who = envelope.has_watch() ? envelope.watch().actor() : actor.empty() ? envelope.to() : actor;
  wire::Envelope answer;
  answer.set_to(envelope.from());
  answer.set_from(envelope.to());  // the head answers for a node that cannot
  answer.mutable_reply()->set_id(id);
  answer.mutable_reply()->set_actor(actor);
  *answer.mutable_reply()->mutable_failure() = failure_of(died(who, why), who);
  send(answer);
}

void NodeCore::lost(const std::string& peer, const std::string& cause) {
  begin_callback();
  if (!head_) {
    {
      std::lock_guard lock(mutex_);
      joined_ = false;
    }
    forget("", "lost the head: " + cause);
    if (events_.head_link) events_.head_link(cause);
    return;
  }
  NodeInfo info;
  {
    std::lock_guard lock(mutex_);
    const auto found = node_of_.find(peer);
    if (found == node_of_.end()) return;
    info = joined_nodes_[found->second];
    peer_of_.erase(found->second);
    node_of_.erase(found);
    outboxes_.erase(peer);
  }
  if (events_.disconnected) {
    events_.disconnected(info, cause);
  } else {
    declare_lost(info.name, cause);
  }
}

}  // namespace nestor::actors::remote
