#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <nestor/actors/detail/future_state.h>
#include <nestor/actors/error.h>

namespace nestor::actors {

/// The result of a call, once it is there. One owner; may be moved between threads, and dropped: the call then runs
/// all the same. Waits end by completion, limit, cancel, or the actor's death, never later.
/// A wait inside an actor that could only end if that actor were idle throws Error at once instead.
template <class T>
class Future {
 public:
  using State = detail::ValueState<T>;
  Future() = default;
  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  /// False for a default, moved-from or already taken future.
  bool valid() const { return state_ != nullptr; }
  bool ready() const { return checked().done(); }

  /// Waits for the result and moves it out. Throws CallFailed (the method threw), ActorDied, CallCancelled.
  T get() {
    checked().wait_until(detail::Deadline::max());
    return take();
  }
  /// The same within a limit. Throws CallTimeout; the future then stays valid.
  T get_for(std::chrono::nanoseconds limit) {
    if (!wait_for(limit)) throw CallTimeout(checked().who(), "no result within " + detail::in_words(limit));
    return take();
  }
  bool wait_for(std::chrono::nanoseconds limit) const { return checked().wait_until(detail::deadline_after(limit)); }
  /// Ends every wait for it with CallCancelled. A call that has not begun is never run; of one that has, the result is
  /// dropped. False when it was complete already.
  bool cancel() { return checked().cancel(); }
  /// Calls `then` when complete: at once, or later in the thread that completes it. Keep it short: post to an actor.
  void on_ready(std::function<void()> then) { checked().on_done(std::move(then)); }

  const std::shared_ptr<State>& state() const { return state_; }

 private:
  State& checked() const {
    if (!state_) throw Error("future", "has no result", "it is empty, or its result was taken before");
    return *state_;
  }
  T take() {
    auto state = std::move(state_);
    if constexpr (std::is_void_v<T>) {
      state->take();
    } else {
      return state->take();
    }
  }

  std::shared_ptr<State> state_;
};

/// The other end: completes a future by hand. A method that returns Future<T> replies later by it: its caller gets a
/// Future<T> that completes when the promise does. Move-only; a promise dropped without a value fails its future.
template <class T>
class Promise {
 public:
  Promise() : state_(std::make_shared<detail::ValueState<T>>()) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Promise() {
    if (state_ && !state_->done()) {
      state_->fail(std::make_exception_ptr(Error("promise", "was dropped without a value")));
    }
  }
  /// Call once: the result is taken by one future.
  Future<T> future() { return Future<T>(state_); }
  template <class... Value>
  bool set_value(Value&&... value) {
    return state_->set_value(typename detail::ValueState<T>::Stored(std::forward<Value>(value)...));
  }
  bool fail(std::exception_ptr error) { return state_->fail(std::move(error)); }

 private:
  std::shared_ptr<detail::ValueState<T>> state_;
};

inline constexpr std::chrono::nanoseconds kNoLimit = std::chrono::nanoseconds::max();

/// The first complete one's index (the lowest of several), or nothing at the limit. Empty futures are passed over.
template <class T>
std::optional<std::size_t> wait_any(std::span<const Future<T>> futures, std::chrono::nanoseconds limit = kNoLimit) {
  std::vector<detail::FutureState*> states;
  for (const Future<T>& future : futures) states.push_back(future.state().get());
  return detail::wait_any(states, detail::deadline_after(limit));
}
template <class T>
std::optional<std::size_t> wait_any(const std::vector<Future<T>>& futures, std::chrono::nanoseconds limit = kNoLimit) {
  return wait_any(std::span<const Future<T>>(futures), limit);
}
/// True when all are complete, false at the limit. Does not throw what a call failed with: get does.
template <class T>
bool wait_all(const std::vector<Future<T>>& futures, std::chrono::nanoseconds limit = kNoLimit) {
  const detail::Deadline deadline = detail::deadline_after(limit);
  for (const Future<T>& future : futures) {
    if (future.valid() && !future.state()->wait_until(deadline)) return false;
  }
  return true;
}

}  // namespace nestor::actors

namespace nestor {
using actors::Future;
using actors::Promise;
using actors::wait_all;
using actors::wait_any;
}  // namespace nestor
