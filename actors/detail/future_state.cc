#include <algorithm>
#include <cstdio>

#include <nestor/actors/detail/cell.h>
#include <nestor/actors/detail/future_state.h>
#include <nestor/actors/error.h>

namespace nestor::actors::detail {

Deadline deadline_after(std::chrono::nanoseconds limit) {
  const Deadline now = std::chrono::steady_clock::now();
  if (limit >= Deadline::max() - now) return Deadline::max();
  return now + limit;
}

std::string in_words(std::chrono::nanoseconds limit) {
  char text[48];
  const double seconds = std::chrono::duration<double>(limit).count();
  if (seconds >= 1) {
    std::snprintf(text, sizeof(text), "%g s", seconds);
  } else {
    std::snprintf(text, sizeof(text), "%g ms", seconds * 1000);
  }
  return text;
}

void Waiter::signal() {
  {
    std::lock_guard lock(mutex);
    signalled = true;
  }
  woken.notify_one();
}

void Waiter::wait_until(Deadline deadline) {
  std::unique_lock lock(mutex);
  if (deadline == Deadline::max()) {
    woken.wait(lock, [this] { return signalled; });
  } else {
    woken.wait_until(lock, deadline, [this] { return signalled; });
  }
}

FutureState::FutureState(std::shared_ptr<Cell> target) : target_(std::move(target)) {}
FutureState::~FutureState() = default;

bool FutureState::wait_until(Deadline deadline) {
  if (done()) return true;
  Cell* current = Cell::current();
  Cell::WaitGuard guard;
  if (current != nullptr) current->begin_wait(*this, deadline != Deadline::max(), guard);
  Waiter waiter;
  if (!add(&waiter)) return true;
  waiter.wait_until(deadline);
  remove(&waiter);
  return done();
}

bool FutureState::fail(std::exception_ptr error) {
  return complete([&] { error_ = std::move(error); });
}

bool FutureState::cancel() {
  if (!fail(std::make_exception_ptr(CallCancelled(who(), "the call was cancelled")))) return false;
  if (target_ && target_->elsewhere() != nullptr)
    if (const auto* task = dynamic_cast<const Task*>(this)) target_->elsewhere()->cancelled(*task);
  return true;
}

void FutureState::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void FutureState::on_done(std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    if (!done_.load(std::memory_order_relaxed)) {
      then_.push_back(std::move(then));
      return;
    }
  }
  then();
}

bool FutureState::add(Waiter* waiter) {
  std::lock_guard lock(mutex_);
  if (done_.load(std::memory_order_relaxed)) return false;
  waiters_.push_back(waiter);
  return true;
}

void FutureState::remove(Waiter* waiter) {
  std::lock_guard lock(mutex_);
  std::erase(waiters_, waiter);
}

std::vector<std::function<void()>> FutureState::release_waiters() {
  // Under the lock: a waiter goes only after it has taken the lock to remove itself.
  for (Waiter* waiter : waiters_) waiter->signal();
  return std::exchange(then_, {});
}

std::string FutureState::who() const {
  return target_ ? target_->name() : "future";
}

std::optional<std::size_t> wait_any(const std::vector<FutureState*>& states, Deadline deadline) {
  const auto first_done = [&]() -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (states[i] != nullptr && states[i]->done()) return i;
    }
    return std::nullopt;
  };
  if (auto found = first_done()) return found;
  if (std::all_of(states.begin(), states.end(), [](FutureState* state) { return state == nullptr; })) {
    return std::nullopt;  // nothing to wait for
  }
  Waiter waiter;
  std::size_t added = 0;
  while (added < states.size() && (states[added] == nullptr || states[added]->add(&waiter))) ++added;
  if (added == states.size()) waiter.wait_until(deadline);
  for (std::size_t i = 0; i < added; ++i) {
    if (states[i] != nullptr) states[i]->remove(&waiter);
  }
  return first_done();
}

}  // namespace nestor::actors::detail
