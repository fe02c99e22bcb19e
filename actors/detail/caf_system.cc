#include <utility>

#include <caf/all.hpp>
#include <pthread.h>

#include <nestor/actors/detail/caf_system.h>

namespace nestor::actors::detail {

/// The only two messages that pass through CAF. Work itself waits in the cell, where it can be failed at once.
struct Drain {};
struct Later {
  std::shared_ptr<Task> task;
  std::weak_ptr<Cell> to;
};

}  // namespace nestor::actors::detail

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(nestor::actors::detail::Drain)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(nestor::actors::detail::Later)

namespace nestor::actors::detail {

namespace {

/// A thread of a cell. Detached: methods may block, and a shared worker that blocks would stall other actors.
class CellActor final : public caf::event_based_actor {
 public:
  CellActor(caf::actor_config& config, std::shared_ptr<Cell> cell, std::size_t thread)
      : caf::event_based_actor(config), cell_(std::move(cell)), thread_(thread) {}

 protected:
  caf::behavior make_behavior() override {
    pthread_setname_np(pthread_self(), cell_->name().substr(0, 15).c_str());
    return {[this](Drain) {
      if (cell_ && !cell_->drain(thread_)) {
        cell_.reset();
        quit();
      }
    }};
  }

 private:
  std::shared_ptr<Cell> cell_;
  const std::size_t thread_;
};

/// Holds delayed work, on CAF's own worker: a timer keeps neither the actor nor its thread. A class, since CAF binds a
/// null reference when it spawns a function without arguments.
class TimerActor final : public caf::event_based_actor {
 public:
  using caf::event_based_actor::event_based_actor;

 protected:
  caf::behavior make_behavior() override {
    return {[this](std::chrono::nanoseconds delay, const Later& later) { delayed_send(this, delay, later); },
            [](const Later& later) {
              if (auto cell = later.to.lock()) cell->post(later.task, true);
            }};
  }
};

class CafWaker final : public Waker {
 public:
  CafWaker(caf::actor thread, caf::actor timer) : thread_(std::move(thread)), timer_(std::move(timer)) {}
  void wake() override { caf::anon_send(thread_, Drain{}); }
  void wake_after(std::chrono::nanoseconds delay, std::shared_ptr<Task> task, std::weak_ptr<Cell> to) override {
    caf::anon_send(timer_, delay, Later{std::move(task), std::move(to)});
  }

 private:
  caf::actor thread_, timer_;
};

/// CAF's own workers carry only timers: one is enough, and the sharing policy sleeps instead of polling when idle.
caf::actor_system_config& configured(caf::actor_system_config& config) {
  config.set("scheduler.policy", caf::atom("sharing"));
  config.set("scheduler.max-threads", static_cast<std::size_t>(1));
  return config;
}

}  // namespace

struct CafSystem::Impl {
  caf::actor_system_config config;
  caf::actor_system system{configured(config)};
  caf::actor timer = system.spawn<TimerActor, caf::hidden>();
};

CafSystem::CafSystem() : impl_(std::make_unique<Impl>()) {}

CafSystem::~CafSystem() = default;

void CafSystem::launch(const std::shared_ptr<Cell>& cell) {
  std::vector<std::shared_ptr<Waker>> wakers;
  for (std::size_t thread = 0; thread < cell->concurrency(); ++thread)
    wakers.push_back(std::make_shared<CafWaker>(
        impl_->system.spawn<CellActor, caf::detached + caf::hidden>(cell, thread), impl_->timer));
  cell->set_wakers(std::move(wakers));
}

void CafSystem::leak() {
  static_cast<void>(impl_.release());
}

}  // namespace nestor::actors::detail
