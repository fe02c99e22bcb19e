#include <algorithm>

#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>
#include <nestor/actors/remote/version.h>

namespace nestor::actors::remote {
namespace {

thread_local bool link_thread = false;

constexpr const char* kHead = "head";

std::exception_ptr died(const std::string& who, const std::string& cause) {
  return std::make_exception_ptr(ActorDied(who, cause));
}

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
  if (transfers_.take(envelope)) return {};
  return send_whole(envelope, alone);
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
  wire::Envelope answer;
  *answer.mutable_reply() = std::move(reply);
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
  try {
    if (envelope.has_credit()) return transfers_.credited(from, envelope.credit());
    if (!envelope.has_part()) return handle(envelope);
    wire::Envelope whole;
    if (!transfers_.arrived(envelope, &whole)) return;
    whole.set_from(from);
    handle(whole);
  } catch (const std::exception& error) {
    undeliverable(envelope, error.what());
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

// --- membership ---

void NodeCore::handle_hello(const std::string& peer, const wire::Hello& hello) {
  NodeInfo info;
  std::string refusal;
  try {
    Decoder decoder(hello.about());
    decoder(info).finish();
  } catch (const Error&) {
    refusal = "it does not speak this version's language";
  }
  if (hello.version() != version())
    refusal = "it runs nestor " + hello.version() + ", the head nestor " + version();
  else if (refusal.empty() && info.kind != "client" && hello.program() != program_digest())
    refusal = "it runs another build of the program (" + hello.program() + ") than the head (" + program_digest() + ")";
  const std::string key_name = peer.substr(0, peer.rfind('#'));
  if (refusal.empty() && events_.admit) refusal = events_.admit(info, key_name);

  bool again = false;
  if (refusal.empty()) {
    std::lock_guard lock(mutex_);
    if (info.kind == "client") info.name = "client" + std::to_string(++clients_);
    const auto known = joined_nodes_.find(info.name);
    again = known != joined_nodes_.end();
    // A dying process that connects once more must not push its successor out.
    if (again && known->second.generation > info.generation) refusal = "it was replaced";
  }
  wire::Envelope answer;
  answer.set_from(kHead);
  if (!refusal.empty()) {
    answer.mutable_refused()->set_cause(refusal);
    static_cast<void>(server_->send(peer, answer.SerializeAsString()));
    return server_->close(peer);
  }
  if (again) declare_lost(info.name, "it connected anew");  // what was under way is gone
  {
    std::lock_guard lock(mutex_);
    joined_nodes_[info.name] = info;
    peer_of_[info.name] = peer;
    node_of_[peer] = info.name;
  }
  answer.set_to(info.name);
  answer.mutable_welcome()->set_node(info.name);
  static_cast<void>(server_->send(peer, answer.SerializeAsString()));
  if (events_.joined) events_.joined(info);
}

void NodeCore::declare_lost(const std::string& node, const std::string& cause, const NodeInfo* only) {
  std::vector<std::string> others;
  std::string peer;
  {
    std::lock_guard lock(mutex_);
    const auto known = joined_nodes_.find(node);
    if (only != nullptr && (known == joined_nodes_.end() || known->second.pid != only->pid ||
                            known->second.generation != only->generation))
      return;
    if (known != joined_nodes_.end()) joined_nodes_.erase(known);
    if (const auto found = peer_of_.find(node); found != peer_of_.end()) {
      peer = found->second;
      node_of_.erase(peer);
      peer_of_.erase(found);
    }
    for (const auto& [name, link] : peer_of_) others.push_back(link);
  }
  if (!peer.empty()) close(peer);
  wire::Envelope notice;
  notice.set_from(kHead);
  notice.mutable_node_lost()->set_node(node);
  notice.mutable_node_lost()->set_cause(cause);
  const std::string bytes = notice.SerializeAsString();
  for (const std::string& other : others) static_cast<void>(transmit(other, bytes));
  forget(node, cause);
}

void NodeCore::forget(const std::string& node, const std::string& cause) {
  transfers_.forget(node);
  if (!node.empty()) transfers_.forget(direct_address(node));
  close_direct(node);
  std::vector<std::shared_ptr<detail::Cell>> dead;
  std::vector<std::pair<std::string, OnReply>> asked;
  {
    std::lock_guard lock(mutex_);
    for (auto it = proxies_.begin(); it != proxies_.end();) {
      if (!node.empty() && it->first.first != node) {
        ++it;
        continue;
      }
      if (auto cell = it->second.lock()) dead.push_back(std::move(cell));
      it = proxies_.erase(it);
    }
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (!node.empty() && it->second.node != node) {
        ++it;
        continue;
      }
      asked.emplace_back(it->second.node, std::move(it->second.then));
      it = waiting_.erase(it);
    }
    for (auto& [actor, watchers] : watched_) {
      if (node.empty()) {
        watchers.clear();
      } else {
        watchers.erase(node);
      }
    }
  }
  for (auto& cell : dead) cell->died_elsewhere(cause);
  for (auto& [who, then] : asked) {
    wire::Reply reply;
    *reply.mutable_failure() = failure_of(died(who, cause), who);
    then(reply);
  }
}

}  // namespace nestor::actors::remote
