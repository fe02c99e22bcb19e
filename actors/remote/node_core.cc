#include <algorithm>

#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>
#include <nestor/actors/remote/version.h>

namespace nestor::actors::remote {
namespace {

thread_local bool link_thread = false;

constexpr const char* kHead = "head";

/// A call that finds this many waiting is refused: the link's thread must not wait for room.
constexpr std::size_t kMailboxLimit = 100'000;

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
    default:
      return 0;
  }
}

}  // namespace

bool in_link_thread() {
  return link_thread;
}

void NodeCore::start(const Node::Head& head, const comm::LinkOptions& link) {
  server_owner_ = comm::listen_link(head.endpoint, head.keys, *this, link);
  server_ = server_owner_.get();
  for (const auto& [key, owner] : head.allowed) server_->allow(key, owner);
  started_ = true;
  started_.notify_all();
}

void NodeCore::start(const Node::Member& member, const comm::LinkOptions& link) {
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
  if (link_thread) return head_ ? server_->send(peer, std::move(message)) : client_->send(std::move(message));
  std::shared_lock lock(open_);
  if (closed_) return {comm::Code::peer_lost, "this process has left the cluster"};
  return head_ ? server_->send(peer, std::move(message)) : client_->send(std::move(message));
}

void NodeCore::close(const std::string& peer) {
  if (link_thread) return server_->close(peer);
  std::shared_lock lock(open_);
  if (!closed_) server_->close(peer);
}

std::string NodeCore::send(wire::Envelope& envelope) {
  std::string peer;
  if (head_) {
    std::lock_guard lock(mutex_);
    const auto found = peer_of_.find(envelope.to());
    if (found == peer_of_.end()) return "node " + envelope.to() + " is not in the cluster";
    peer = found->second;
    envelope.set_from(kHead);
  }
  const comm::Status status = transmit(peer, envelope.SerializeAsString());
  return status.ok() ? "" : status.message;
}

void NodeCore::ask(wire::Envelope& envelope, std::uint64_t id, OnReply then) {
  {
    std::lock_guard lock(mutex_);
    waiting_[id] = {envelope.to(), std::move(then)};
  }
  const std::string failure = send(envelope);
  if (failure.empty()) return;
  wire::Reply reply;
  *reply.mutable_failure() = failure_of(died(envelope.to(), failure), envelope.to());
  reply.set_id(id);
  wire::Envelope answer;
  *answer.mutable_reply() = reply;
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
  wire::Envelope envelope;
  if (!envelope.ParseFromString(message) || envelope.body_case() == wire::Envelope::BODY_NOT_SET) {
    if (head_) server_->close(peer);
    return;
  }
  try {
    if (!head_) return handle(envelope);
    if (envelope.body_case() == wire::Envelope::kHello) return handle_hello(peer, envelope.hello());
    std::string from;
    {
      std::lock_guard lock(mutex_);
      if (const auto found = node_of_.find(peer); found != node_of_.end()) from = found->second;
    }
    if (from.empty()) return server_->close(peer);
    envelope.set_from(from);  // whatever it says itself
    if (envelope.to().empty() || envelope.to() == kHead) return handle(envelope);
    forward(envelope);
  } catch (const std::exception& error) {
    undeliverable(envelope, error.what());
  }
}

void NodeCore::forward(wire::Envelope& envelope) {
  std::string peer;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = peer_of_.find(envelope.to()); found != peer_of_.end()) peer = found->second;
  }
  if (peer.empty()) return undeliverable(envelope, "node " + envelope.to() + " is not in the cluster");
  const comm::Status status = transmit(peer, envelope.SerializeAsString());
  if (!status.ok()) undeliverable(envelope, status.message);
}

void NodeCore::undeliverable(const wire::Envelope& envelope, const std::string& why) {
  if (const std::uint64_t id = id_of(envelope); id != 0) {
    const std::string actor = envelope.has_call() ? envelope.call().actor() : "";
    const std::string who = envelope.has_watch() ? envelope.watch().actor() : actor.empty() ? envelope.to() : actor;
    reply(envelope.from(), id, actor, {}, died(who, why));
  }
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

  wire::Envelope answer;
  answer.set_from(kHead);
  if (!refusal.empty()) {
    answer.mutable_refused()->set_cause(refusal);
    static_cast<void>(server_->send(peer, answer.SerializeAsString()));
    server_->close(peer);
    return;
  }
  bool again = false;
  {
    std::lock_guard lock(mutex_);
    if (info.kind == "client") info.name = "client" + std::to_string(++clients_);
    again = joined_nodes_.contains(info.name);
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

void NodeCore::declare_lost(const std::string& node, const std::string& cause) {
  std::vector<std::string> others;
  std::string peer;
  {
    std::lock_guard lock(mutex_);
    joined_nodes_.erase(node);
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

// --- what nodes ask each other ---

void NodeCore::handle(wire::Envelope& envelope) {
  switch (envelope.body_case()) {
    case wire::Envelope::kCall:
      return handle_call(envelope);
    case wire::Envelope::kReply:
      return handle_reply(envelope);
    case wire::Envelope::kWatch:
      return handle_watch(envelope);
    case wire::Envelope::kEnd:
      return handle_end(envelope);
    case wire::Envelope::kSpawn:
      return handle_spawn(envelope);
    case wire::Envelope::kDown: {
      std::shared_ptr<detail::Cell> cell;
      {
        std::lock_guard lock(mutex_);
        const auto found = proxies_.find({envelope.from(), envelope.down().actor()});
        if (found == proxies_.end()) return;
        cell = found->second.lock();
        proxies_.erase(found);
      }
      if (cell) cell->died_elsewhere(envelope.down().cause());
      return;
    }
    case wire::Envelope::kWelcome: {
      {
        std::lock_guard lock(mutex_);
        self_.name = envelope.welcome().node();
        joined_ = true;
        refused_.clear();
      }
      changed_.notify_all();
      if (events_.head_link) events_.head_link("");
      return;
    }
    case wire::Envelope::kRefused: {
      {
        std::lock_guard lock(mutex_);
        refused_ = envelope.refused().cause();
      }
      changed_.notify_all();
      return;
    }
    case wire::Envelope::kNodeLost:
      if (!head_) forget(envelope.node_lost().node(), envelope.node_lost().cause());
      return;
    default:
      return;
  }
}

void NodeCore::reply(const std::string& to, std::uint64_t id, const std::string& actor, std::string result,
                     const std::exception_ptr& error) {
  wire::Envelope envelope;
  envelope.set_to(to);
  wire::Reply& reply = *envelope.mutable_reply();
  reply.set_id(id);
  reply.set_actor(actor);
  if (error) {
    *reply.mutable_failure() = failure_of(error, actor);
  } else {
    reply.set_result(std::move(result));
  }
  const std::string failure = send(envelope);
  if (failure.empty() || error) return;
  // A result too large for a link, say: the caller must hear something.
  reply.clear_result();
  *reply.mutable_failure() =
      failure_of(std::make_exception_ptr(Error(actor, "its answer could not be sent: " + failure)), actor);
  send(envelope);
}

void NodeCore::handle_call(wire::Envelope& envelope) {
  wire::Call& call = *envelope.mutable_call();
  const std::string from = envelope.from(), actor = call.actor();
  const std::uint64_t id = call.id();
  try {
    const auto cell = runtime_.registry()->find(actor);
    const detail::MakeIncoming make = cell->type().incoming(call.method());
    if (!make) {
      std::string names;
      for (const std::string& name : cell->type().methods()) names += (names.empty() ? "" : ", ") + name;
      throw Error(actor, "has no method '" + call.method() + "' that other processes can call",
                  names.empty() ? "it lists none" : "it has " + names);
    }
    if (cell->queued() >= kMailboxLimit)
      throw Error(actor, "its mailbox is full (" + std::to_string(kMailboxLimit) + " calls)");
    detail::Incoming incoming{call.method(), std::move(*call.mutable_arguments()), node_, {}};
    incoming.reply = [weak = weak_from_this(), from, id, actor](std::string result, std::exception_ptr error) {
      if (auto core = weak.lock()) core->reply(from, id, actor, std::move(result), error);
    };
    cell->post(make(cell, std::move(incoming)), true);
  } catch (...) {
    reply(from, id, actor, {}, std::current_exception());
  }
}

void NodeCore::handle_reply(const wire::Envelope& envelope) {
  const wire::Reply& reply = envelope.reply();
  OnReply then;
  std::shared_ptr<detail::Cell> cell;
  {
    std::lock_guard lock(mutex_);
    if (reply.actor().empty()) {
      auto node = waiting_.extract(reply.id());
      if (node.empty()) return;
      then = std::move(node.mapped().then);
    } else if (const auto found = proxies_.find({envelope.from(), reply.actor()}); found != proxies_.end()) {
      cell = found->second.lock();
    }
  }
  if (then) return then(reply);
  if (cell) static_cast<RemoteActor*>(cell->elsewhere())->answered(reply, node_);
}

void NodeCore::handle_watch(const wire::Envelope& envelope) {
  const wire::Watch& watch = envelope.watch();
  const std::string from = envelope.from(), name = watch.actor();
  try {
    const auto cell = runtime_.registry()->find(name);
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      auto [entry, inserted] = watched_.try_emplace(name);
      first = inserted;
      entry->second.insert(from);
    }
    reply(from, watch.id(), "", cell->type_name(), nullptr);
    if (!first) return;
    cell->on_death([weak = weak_from_this(), name](const std::string& cause) {
      auto core = weak.lock();
      if (!core) return;
      std::set<std::string> watchers;
      {
        std::lock_guard lock(core->mutex_);
        if (auto node = core->watched_.extract(name); !node.empty()) watchers = std::move(node.mapped());
      }
      for (const std::string& watcher : watchers) {
        wire::Envelope notice;
        notice.set_to(watcher);
        notice.mutable_down()->set_actor(name);
        notice.mutable_down()->set_cause(cause);
        core->send(notice);
      }
    });
  } catch (...) {
    reply(from, watch.id(), "", {}, std::current_exception());
  }
}

void NodeCore::handle_end(const wire::Envelope& envelope) {
  const wire::End& end = envelope.end();
  const std::string from = envelope.from();
  const std::uint64_t id = end.id();
  try {
    const auto cell = runtime_.registry()->find(end.actor());
    if (!end.drain()) {
      cell->kill(end.cause());
      if (id != 0) reply(from, id, "", {}, nullptr);
      return;
    }
    cell->stop([weak = weak_from_this(), from, id] {
      if (auto core = weak.lock(); core && id != 0) core->reply(from, id, "", {}, nullptr);
    });
  } catch (...) {
    if (id != 0) reply(from, id, "", {}, std::current_exception());
  }
}

void NodeCore::handle_spawn(wire::Envelope& envelope) {
  auto held = std::make_shared<wire::Spawn>(std::move(*envelope.mutable_spawn()));
  const std::string from = envelope.from();
  // A constructor may take its time; the link's thread has none.
  spawner_.run([weak = weak_from_this(), held, from](Actor&) {
    auto core = weak.lock();
    if (!core) return;
    try {
      const ActorTypes::Spawn& make = core->types_.find(held->type());
      ActorOptions options;
      options.name = held->name();
      if (held->mailbox_limit() > 0) options.mailbox_limit = held->mailbox_limit();
      Decoder decoder(held->arguments(), core->node_);
      make(core->runtime_, options, decoder);
      core->reply(from, held->id(), "", {}, nullptr);
    } catch (...) {
      core->reply(from, held->id(), "", {}, std::current_exception());
    }
  });
}

// --- proxies ---

std::shared_ptr<detail::Cell> NodeCore::proxy(const std::string& node, const std::string& actor,
                                              const detail::ActorType& type) {
  wire::Envelope envelope;
  std::shared_ptr<detail::Cell> cell;
  {
    std::lock_guard lock(mutex_);
    auto& known = proxies_[{node, actor}];
    if (auto alive = known.lock(); alive && alive->state() < detail::CellState::dead && alive->type().type == type.type)
      return alive;
    cell = std::make_shared<detail::Cell>(actor, type, runtime_.registry(),
                                          std::make_shared<RemoteActor>(weak_from_this(), node, actor));
    known = cell;
    std::erase_if(proxies_, [](const auto& entry) { return entry.second.expired(); });
  }
  envelope.set_to(node);
  envelope.mutable_watch()->set_id(next_id());
  envelope.mutable_watch()->set_actor(actor);
  ask(envelope, envelope.watch().id(), [weak = std::weak_ptr<detail::Cell>(cell), type](const wire::Reply& reply) {
    auto proxy = weak.lock();
    if (!proxy) return;
    if (reply.has_failure()) return proxy->died_elsewhere(reply.failure().what());
    if (reply.result() != type.name) proxy->died_elsewhere("it is a " + reply.result() + ", not a " + type.name);
  });
  return cell;
}

}  // namespace nestor::actors::remote
