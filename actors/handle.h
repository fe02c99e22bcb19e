#pragma once

#include <chrono>
#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <nestor/actors/actor.h>
#include <nestor/actors/detail/call.h>
#include <nestor/actors/future.h>
#include <nestor/actors/method_table.h>

namespace nestor::actors {

/// A name card of an actor: copy it, keep it, send it to other actors. Does not keep the actor alive, and outlives it
/// and its runtime: calls of a dead actor fail at once with the cause. Any thread.
template <class T>
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::shared_ptr<detail::Cell> cell) : cell_(std::move(cell)) {}
  template <std::derived_from<T> U>
  Handle(const Handle<U>& other) : cell_(other.shared_cell()) {}  // NOLINT: an upcast, as for pointers

  /// Queues a call of a method; the future has its result. Arguments are copied or moved into the call, converted to
  /// the method's parameter types here. A method that returns Future<R> replies later; the call gives a Future<R>.
  /// Throws CallTimeout where the actor's mailbox stays full (ActorOptions); all else arrives in the future.
  template <class R, class C, class... P, class... Args>
  requires std::derived_from<T, C>
  auto call(R (C::*method)(P...), Args&&... args) const {
    return post(make_call<R, P...>(method, std::forward<Args>(args)...));
  }
  template <class R, class C, class... P, class... Args>
  requires std::derived_from<T, C>
  auto call(R (C::*method)(P...) const, Args&&... args) const {
    return post(make_call<R, P...>(method, std::forward<Args>(args)...));
  }
  /// Queues a function of T&; it runs in the actor's thread like a method.
  template <std::invocable<T&> Function>
  auto run(Function function) const {
    using Returned = std::invoke_result_t<Function&, T&>;
    using Call = detail::BoundCall<T, typename detail::ResultOf<Returned>::Type, Function>;
    return post(std::make_shared<Call>(shared_cell(), std::move(function)));
  }
  /// Runs a function of T& in the actor after a delay, unless the actor is dead by then. A timer.
  template <std::invocable<T&> Function>
  void run_after(std::chrono::nanoseconds delay, Function function) const {
    using Returned = std::invoke_result_t<Function&, T&>;
    using Call = detail::BoundCall<T, typename detail::ResultOf<Returned>::Type, Function>;
    cell().post_after(delay, std::make_shared<Call>(shared_cell(), std::move(function)));
  }

  const std::string& name() const { return cell().name(); }
  bool alive() const { return cell().state() < detail::CellState::dead; }
  /// Ends the actor now. Its queued calls and the one under way fail with the cause; that method still runs to its
  /// end, its result is dropped, then on_stop is called. False when it was dead already.
  bool kill(const std::string& cause = "it was killed") const { return cell().kill(cause); }
  /// Ends the actor after what is queued. The future completes when its object is destroyed.
  Future<void> stop() const {
    auto state = std::make_shared<detail::ValueState<void>>();
    cell().stop([state] { state->set_value({}); });
    return Future<void>(state);
  }

  explicit operator bool() const { return cell_ != nullptr; }
  friend bool operator==(const Handle& a, const Handle& b) = default;

  const std::shared_ptr<detail::Cell>& shared_cell() const {
    if (!cell_) throw Error("actor", "an empty handle names no actor", "get one from Runtime::spawn or find");
    return cell_;
  }
  detail::Cell& cell() const { return *shared_cell(); }

 private:
  template <class R, class... P, class Method, class... Args>
  auto make_call(Method method, Args&&... args) const {
    static_assert(sizeof...(P) == sizeof...(Args), "as many arguments as the method has parameters");
    static_assert(((!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>)&&...),
                  "an actor shares no variable with its caller: take parameters by value or const reference");
    using Call = detail::BoundCall<T, typename detail::ResultOf<R>::Type, Method, std::decay_t<P>...>;
    return std::make_shared<Call>(shared_cell(), method, std::forward<Args>(args)...);
  }
  template <class Call>
  auto post(std::shared_ptr<Call> call) const {
    auto future = future_of(call);
    cell_->post(std::move(call));
    return future;
  }
  template <class R>
  static Future<R> future_of_state(std::shared_ptr<detail::ValueState<R>> state) {
    return Future<R>(std::move(state));
  }
  template <class R, class Function, class... Stored>
  static Future<R> future_of(const std::shared_ptr<detail::BoundCall<T, R, Function, Stored...>>& call) {
    return future_of_state<R>(call);
  }

  std::shared_ptr<detail::Cell> cell_;
};

}  // namespace nestor::actors

namespace nestor {
using actors::Handle;
}
