#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>

namespace nestor::actors::remote {

void RemoteActor::post(const std::shared_ptr<detail::Task>& task) {
  auto core = core_.lock();
  if (!core) return task->abandon(std::make_exception_ptr(ActorDied(actor_, "this process has left the cluster")));
  wire::Envelope envelope;
  envelope.set_to(node_);
  wire::Call& call = *envelope.mutable_call();
  call.set_actor(actor_);
  try {
    Encoder encoder(core->node_);
    call.set_method(task->encode(encoder));
    call.set_arguments(encoder.take());
  } catch (...) {
    return task->abandon(std::current_exception());
  }
  const std::uint64_t id = core->next_id();
  call.set_id(id);
  {
    std::unique_lock lock(mutex_);
    const auto room = [this] { return under_way_.size() < kUnderWay || dead_; };
    if (!room() && (in_link_thread() || !room_.wait_for(lock, kSendLimit, room)))
      throw CallTimeout(actor_, "has " + std::to_string(kUnderWay) + " calls of this process under way",
                        "wait for results before calling more");
    if (dead_) {
      lock.unlock();
      return task->abandon(dead_);
    }
    under_way_.emplace(id, task);
  }
  const std::string failure = core->send(envelope);
  if (failure.empty()) return;
  if (auto unsent = take(id)) unsent->abandon(std::make_exception_ptr(ActorDied(actor_, failure)));
}

void RemoteActor::end(const std::string& cause, bool drain, std::function<void()> ended) {
  auto core = core_.lock();
  if (!core) return ended ? ended() : void();
  wire::Envelope envelope;
  envelope.set_to(node_);
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
  if (under_way_.size() + 1 == kUnderWay) room_.notify_all();
  return std::move(node.mapped());
}

void RemoteActor::abandon(const std::exception_ptr& error) {
  std::unordered_map<std::uint64_t, std::shared_ptr<detail::Task>> tasks;
  {
    std::lock_guard lock(mutex_);
    dead_ = error;
    tasks.swap(under_way_);
  }
  room_.notify_all();
  for (auto& [id, task] : tasks) task->abandon(error);
}

void RemoteActor::answered(const wire::Reply& reply, Node* node) {
  auto task = take(reply.id());
  if (!task) return;  // given up meanwhile
  if (reply.has_failure()) return task->abandon(exception_of(reply.failure()));
  try {
    Decoder decoder(reply.result(), node);
    task->complete(decoder);
  } catch (...) {
    task->abandon(std::current_exception());
  }
}

}  // namespace nestor::actors::remote
