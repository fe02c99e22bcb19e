#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>
#include <nestor/actors/remote/letter.h>

namespace nestor::actors::remote {

namespace {

/// With more calls under way than this, the next ones are likely to come at once as well: they may travel together.
constexpr std::size_t kFewUnderWay = 4;

}  // namespace

void RemoteActor::post(const std::shared_ptr<detail::Task>& task) {
  auto core = core_.lock();
  if (!core) return task->abandon(std::make_exception_ptr(ActorDied(actor_, "this process has left the cluster")));
  Letter letter;
  wire::Call& call = *letter.envelope.mutable_call();
  call.set_actor(actor_);
  std::size_t bytes = 0;
  try {
    Encoder encoder(core->node_, core->memory_);
    Encoded arguments;
    call.set_method(task->encode(encoder, arguments));
    bytes = arguments.size();
    call.set_arguments(std::move(arguments.bytes));
    letter.attached = std::move(arguments.attached);
  } catch (...) {
    return task->abandon(std::current_exception());
  }
  if (const std::string trouble = too_long("its arguments", bytes); !trouble.empty())
    return task->abandon(std::make_exception_ptr(Error(actor_, trouble, "send it in pieces")));
  const std::uint64_t id = core->next_id();
  call.set_id(id);
  bool alone = false;
  {
    std::unique_lock lock(mutex_);
    const auto room = [&] {
      return dead_ || (under_way_.size() < kUnderWay && (bytes_ == 0 || bytes_ + bytes <= kBytesUnderWay));
    };
    if (!room()) {
      bool found = false;
      if (!in_link_thread()) {
        ++waiting_;
        found = room_.wait_for(lock, kSendLimit, room);
        --waiting_;
      }
      if (!found)
        throw CallTimeout(actor_,
                          "has " + std::to_string(under_way_.size()) + " calls of this process under way with " +
                              std::to_string(bytes_ >> 20) + " MiB of arguments",
                          "wait for results before calling more");
    }
    if (dead_) {
      lock.unlock();
      return task->abandon(dead_);
    }
    choose_route(*core);
    alone = under_way_.size() < kFewUnderWay;
    under_way_.emplace(id, UnderWay{task, bytes});
    bytes_ += bytes;
    letter.envelope.set_to(address());
  }
  const std::string failure = core->send(letter, alone);
  if (failure.empty()) return;
  if (auto unsent = take(id)) unsent->abandon(std::make_exception_ptr(ActorDied(actor_, failure)));
}

void RemoteActor::choose_route(NodeCore& core) {
  if (direct_ && direct_->connection() != connection_) direct_.reset();
  if (direct_ || !under_way_.empty()) return;
  auto link = core.direct_to(node_);
  if (!link || (connection_ = link->connection()) % 2 == 0) return;
  direct_ = std::move(link);
  // Its death is to be heard of on the same way, behind its answers.
  wire::Envelope envelope;
  envelope.set_to(address());
  envelope.mutable_watch()->set_actor(actor_);
  core.send(envelope);
}

void RemoteActor::end(const std::string& cause, bool drain, std::function<void()> ended) {
  auto core = core_.lock();
  if (!core) return ended ? ended() : void();
  wire::Envelope envelope;
  {
    std::lock_guard lock(mutex_);
    choose_route(*core);
    envelope.set_to(address());
  }
  wire::End& end = *envelope.mutable_end();
  end.set_actor(actor_);
  end.set_cause(cause);
  end.set_drain(drain);
  if (!ended) {
    core->send(envelope);
    return;
  }
  end.set_id(core->next_id());
  core->ask(envelope, end.id(), [ended](const wire::Reply&) { ended(); });
}

std::shared_ptr<detail::Task> RemoteActor::take(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  auto node = under_way_.extract(id);
  if (node.empty()) return nullptr;
  bytes_ -= node.mapped().bytes;
  if (waiting_ > 0) room_.notify_all();
  return std::move(node.mapped().task);
}

void RemoteActor::abandon(const std::exception_ptr& error) {
  std::unordered_map<std::uint64_t, UnderWay> calls;
  {
    std::lock_guard lock(mutex_);
    dead_ = error;
    calls.swap(under_way_);
    bytes_ = 0;
  }
  room_.notify_all();
  for (auto& [id, call] : calls) call.task->abandon(error);
}

void RemoteActor::cancelled(const detail::Task& task) {
  wire::Envelope envelope;
  std::uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [number, call] : under_way_)
      if (call.task.get() == &task) id = number;
    if (id == 0) return;
    envelope.set_to(address());
  }
  const auto held = take(id);
  auto core = core_.lock();
  if (!core) return;
  envelope.mutable_cancel()->set_id(id);
  envelope.mutable_cancel()->set_actor(actor_);
  core->send(envelope, false);  // behind the call itself
}

std::size_t RemoteActor::load() const {
  std::lock_guard lock(mutex_);
  return under_way_.size();
}

bool RemoteActor::comes_by(const std::string& address) const {
  std::lock_guard lock(mutex_);
  const bool direct = direct_ && direct_->connection() == connection_;
  return address == (direct ? direct_address_ : node_);
}

void RemoteActor::direct_lost() {
  std::lock_guard lock(mutex_);
  if (!direct_ || direct_->connection() == connection_) return;
  for (const auto& [id, call] : under_way_) lost_.push_back(id);
  direct_.reset();
}

void RemoteActor::argument_lost(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  if (under_way_.count(id) > 0) lost_.push_back(id);
}

void RemoteActor::fail_lost(const std::string& cause) {
  std::vector<std::uint64_t> lost;
  {
    std::lock_guard lock(mutex_);
    lost.swap(lost_);
  }
  for (std::uint64_t id : lost)
    if (auto task = take(id)) task->abandon(std::make_exception_ptr(ActorDied(actor_, cause)));
}

void RemoteActor::answered(Letter& letter, Node* node) {
  const wire::Reply& reply = letter.envelope.reply();
  auto task = take(reply.id());
  if (!task) return;  // given up meanwhile
  if (reply.has_failure()) return task->abandon(exception_of(reply.failure()));
  try {
    Decoder decoder(open_payload(letter), node);
    task->complete(decoder);
  } catch (...) {
    task->abandon(std::current_exception());
  }
}

}  // namespace nestor::actors::remote
