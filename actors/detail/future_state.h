#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nestor::actors::detail {

class Cell;
using Deadline = std::chrono::steady_clock::time_point;

/// `limit` from now; a limit too large to add is no limit.
Deadline deadline_after(std::chrono::nanoseconds limit);
std::string in_words(std::chrono::nanoseconds limit);
class FutureState;
/// Index of the first of `states` that is done, waiting until the deadline; null ones are passed over.
std::optional<std::size_t> wait_any(const std::vector<FutureState*>& states, Deadline deadline);

/// One thread that waits, for one future or for any of several.
struct Waiter {
  std::mutex mutex;
  std::condition_variable woken;
  bool signalled = false;

  void signal();
  void wait_until(Deadline deadline);  ///< returns when signalled or at the deadline
};

/// What a future and whoever completes it share; completed once, later completions are ignored. Any thread.
class FutureState : public std::enable_shared_from_this<FutureState> {
 public:
  FutureState() = default;
  /// Of a call: `target` will run it.
  explicit FutureState(std::shared_ptr<Cell> target);
  FutureState(const FutureState&) = delete;
  FutureState& operator=(const FutureState&) = delete;
  virtual ~FutureState();

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Waits; true when done. Throws Error where the calling actor would wait for itself (Cell::begin_wait).
  bool wait_until(Deadline deadline);
  /// True when this completed the future.
  bool fail(std::exception_ptr error);
  /// Fails it with CallCancelled, and tells the actor that is to run the call. True when this completed the future.
  bool cancel();
  /// Throws what the future failed with, if it did. Only when done.
  void rethrow() const;
  /// Calls `then` when done: at once, or later in the completing thread.
  void on_done(std::function<void()> then);
  bool add(Waiter* waiter);  ///< false when done already
  void remove(Waiter* waiter);
  /// Whom the future waits for, for error texts.
  std::string who() const;
  /// From now on something other than the target's running the call will complete it.
  void defer() { deferred_.store(true, std::memory_order_relaxed); }
  /// The actor whose running the call completes this; null where that is not so.
  Cell* target() const { return deferred_.load(std::memory_order_relaxed) ? nullptr : target_.get(); }

 protected:
  /// Completes with what `store` stores; it is called under the lock, unless done already.
  template <class Store>
  bool complete(Store&& store) {
    std::vector<std::function<void()>> then;
    {
      std::lock_guard lock(mutex_);
      if (done_.load(std::memory_order_relaxed)) return false;
      store();
      done_.store(true, std::memory_order_release);
      then = release_waiters();
    }
    for (auto& function : then) function();
    return true;
  }
  std::exception_ptr error_;

 private:
  std::vector<std::function<void()>> release_waiters();

  mutable std::mutex mutex_;
  std::atomic<bool> done_{false};
  std::shared_ptr<Cell> target_;
  std::atomic<bool> deferred_{false};
  std::vector<Waiter*> waiters_;
  std::vector<std::function<void()>> then_;
};

/// A state with a value. void is stored as monostate.
template <class R>
class ValueState : public FutureState {
 public:
  using Stored = std::conditional_t<std::is_void_v<R>, std::monostate, R>;
  using Value = Stored;  ///< where a parameter pack is called Stored
  using FutureState::FutureState;

  bool set_value(Stored value) {
    return complete([&] { value_.emplace(std::move(value)); });
  }
  /// Moves the value out. Only when done; throws what the future failed with.
  Stored take() {
    rethrow();
    Stored value = std::move(*value_);
    return value;
  }
  /// Completes as `other` did, whose value is moved.
  void complete_from(ValueState& other) {
    try {
      set_value(other.take());
    } catch (...) {
      fail(std::current_exception());
    }
  }

 private:
  std::optional<Stored> value_;
};

}  // namespace nestor::actors::detail
