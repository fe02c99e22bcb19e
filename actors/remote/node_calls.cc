#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>
#include <nestor/actors/remote/letter.h>

// What nodes ask each other: calls, deaths, ends, spawns; and the proxies that ask.

namespace nestor::actors::remote {
namespace {

/// A call that finds this many waiting is refused: the link's thread must not wait for room.
constexpr std::size_t kMailboxLimit = 100'000;

}  // namespace

void NodeCore::handle(Letter& letter) {
  wire::Envelope& envelope = letter.envelope;
  switch (envelope.body_case()) {
    case wire::Envelope::kCall:
      return handle_call(letter);
    case wire::Envelope::kReply:
      return handle_reply(letter);
    case wire::Envelope::kWatch:
      return handle_watch(envelope);
    case wire::Envelope::kEnd:
      return handle_end(envelope);
    case wire::Envelope::kSpawn:
      return handle_spawn(envelope);
    case wire::Envelope::kCancel:
      return handle_cancel(envelope);
    case wire::Envelope::kWhere:
      return handle_where(envelope);
    case wire::Envelope::kDown:
      return handle_down(envelope);
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

void NodeCore::reply(const std::string& to, std::uint64_t id, const std::string& actor, Encoded result,
                     const std::exception_ptr& error, bool alone) {
  Letter letter;
  letter.envelope.set_to(to);
  wire::Reply& reply = *letter.envelope.mutable_reply();
  reply.set_id(id);
  reply.set_actor(actor);
  std::string trouble;
  if (error) {
    *reply.mutable_failure() = failure_of(error, actor);
  } else {
    trouble = too_long("its result", result.size());
    reply.set_result(std::move(result.bytes));
    letter.attached = std::move(result.attached);
  }
  if (trouble.empty()) trouble = send(letter, alone);
  if (!trouble.empty() && !error) no_answer(to, id, actor, "its answer could not be sent: " + trouble);
}

/// A result too large for a link, say: the caller must hear something.
void NodeCore::no_answer(const std::string& to, std::uint64_t id, const std::string& actor, const std::string& why) {
  wire::Envelope envelope;
  envelope.set_to(to);
  envelope.mutable_reply()->set_id(id);
  envelope.mutable_reply()->set_actor(actor);
  *envelope.mutable_reply()->mutable_failure() = failure_of(std::make_exception_ptr(Error(actor, why)), actor);
  send(envelope);
}

void NodeCore::handle_call(Letter& letter) {
  wire::Call& call = *letter.envelope.mutable_call();
  const std::string from = letter.envelope.from(), actor = call.actor();
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
    detail::Incoming incoming{from, id, std::move(*call.mutable_method()), open_payload(letter), node_, memory_, {}};
    incoming.reply = [weak = weak_from_this(), from, id, at = std::weak_ptr(cell)](Encoded result,
                                                                                   std::exception_ptr error) {
      auto core = weak.lock();
      auto called = at.lock();
      if (core && called) core->reply(from, id, called->name(), std::move(result), error, called->queued() == 0);
    };
    cell->post(make(cell, std::move(incoming)), true);
  } catch (...) {
    reply(from, id, actor, {}, std::current_exception(), true);
  }
}

void NodeCore::handle_cancel(const wire::Envelope& envelope) {
  try {
    runtime_.registry()->find(envelope.cancel().actor())->cancel(envelope.from(), envelope.cancel().id());
  } catch (const Error&) {
    // It is dead, and so is the call.
  }
}

void NodeCore::handle_down(const wire::Envelope& envelope) {
  std::shared_ptr<detail::Cell> cell;
  {
    std::lock_guard lock(mutex_);
    const auto found = proxies_.find({node_of(envelope.from()), envelope.down().actor()});
    if (found != proxies_.end()) cell = found->second.lock();
  }
  // The head's word may come before the last answers on a direct link, which brings the news itself.
  if (!cell || !static_cast<RemoteActor*>(cell->elsewhere())->comes_by(envelope.from())) return;
  cell->died_elsewhere(envelope.down().cause());
}

void NodeCore::handle_reply(Letter& letter) {
  const std::string from = node_of(letter.envelope.from());
  const wire::Reply& reply = letter.envelope.reply();
  OnReply then;
  std::shared_ptr<detail::Cell> cell;
  {
    std::lock_guard lock(mutex_);
    if (reply.actor().empty()) {
      auto node = waiting_.extract(reply.id());
      if (node.empty()) return;
      then = std::move(node.mapped().then);
    } else if (const auto found = proxies_.find({from, reply.actor()}); found != proxies_.end()) {
      cell = found->second.lock();
    }
  }
  if (then) return then(reply);
  if (cell) static_cast<RemoteActor*>(cell->elsewhere())->answered(letter, node_);
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
    if (watch.id() != 0) reply(from, watch.id(), "", {cell->type_name(), {}}, nullptr, true);
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
    if (watch.id() != 0) return reply(from, watch.id(), "", {}, std::current_exception(), true);
    wire::Envelope notice;  // it died while its watcher changed links
    notice.set_to(from);
    notice.mutable_down()->set_actor(name);
    notice.mutable_down()->set_cause("it has died");
    send(notice);
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
      if (id != 0) reply(from, id, "", {}, nullptr, true);
      return;
    }
    cell->stop([weak = weak_from_this(), from, id] {
      if (auto core = weak.lock(); core && id != 0) core->reply(from, id, "", {}, nullptr, true);
    });
  } catch (...) {
    if (id != 0) reply(from, id, "", {}, std::current_exception(), true);
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
      Decoder decoder(Decoder::Owned(std::move(*held->mutable_arguments())), core->node_);
      make(core->runtime_, options, decoder);
      core->reply(from, held->id(), "", {}, nullptr, true);
    } catch (...) {
      core->reply(from, held->id(), "", {}, std::current_exception(), true);
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
  open_direct(node);
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
