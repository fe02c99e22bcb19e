#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <nestor/actors/actor.h>
#include <nestor/actors/codec.h>
#include <nestor/actors/future.h>

namespace nestor::actors::detail {

/// method_table.h
template <class T, class Function>
std::string method_name(const Function& function);

/// The current exception as what a caller gets: it names the actor and, where known, the method.
std::exception_ptr call_failed(const std::string& actor, const std::string& method);

/// Runs `function` and completes `state` with what it returns or throws. A returned Future<R> completes `state` later:
/// true then.
template <class R, class Function, class MethodName>
bool settle(ValueState<R>& state, const std::string& actor, MethodName&& method, Function&& function) {
  using Returned = std::invoke_result_t<Function>;
  try {
    if constexpr (std::is_same_v<Returned, Future<R>>) {
      auto inner = function().state();
      if (!inner) throw Error(actor, "returned an empty future", "return Promise::future()");
      state.defer();
      auto outer = std::static_pointer_cast<ValueState<R>>(state.shared_from_this());
      inner->on_done([outer, inner] { outer->complete_from(*inner); });
      return !state.done();
    } else if constexpr (std::is_void_v<Returned>) {
      function();
      state.set_value({});
    } else {
      state.set_value(function());
    }
  } catch (...) {
    state.fail(call_failed(actor, method()));
  }
  return false;
}

/// What a call of a method that returns `Returned` gives its caller.
template <class Returned>
struct ResultOf {
  using Type = std::remove_cvref_t<Returned>;
};
template <class R>
struct ResultOf<Future<R>> {
  using Type = R;
};

/// Can an answer of this type come from another process?
template <class R>
concept CodableResult = std::is_void_v<R> ||(Codable<R>&& std::is_default_constructible_v<R>);

/// A call: the function, its arguments and its result in one object. The arguments are destroyed once it has run.
template <class T, class R, class Function, class... Stored>
class BoundCall final : public ValueState<R>, public Task {
 public:
  template <class... Args>
  BoundCall(std::shared_ptr<Cell> target, Function function, Args&&... args)
      : ValueState<R>(target),
        name_(&target->name()),
        function_(std::move(function)),
        args_(std::in_place, std::forward<Args>(args)...) {}

  bool run(Cell& cell) override {
    if (this->done()) return false;  // cancelled before it began
    T& object = static_cast<T&>(cell.object());
    const auto method = [&] { return method_name<T>(function_); };
    const bool later = settle<R>(*this, *name_, method, [&]() -> decltype(auto) {
      auto args = std::move(*args_);
      args_.reset();
      return std::apply(
          [&](Stored&... stored) -> decltype(auto) { return std::invoke(function_, object, std::move(stored)...); },
          args);
    });
    return later;
  }
  void abandon(std::exception_ptr error) override { this->fail(std::move(error)); }
  bool settled() const override { return this->done(); }

  std::string encode(Encoder& encoder, Encoded& arguments) override {
    if constexpr (kSendable) {
      std::string name = method_name<T>(function_);
      if (name.empty())
        throw Error(*name_, "this method is not one that other processes can call", "list it in describe()");
      arguments = std::apply([&](const auto&... stored) { return encoder.attach(stored...); }, *args_);
      args_.reset();
      return name;
    } else {
      return Task::encode(encoder, arguments);
    }
  }
  void complete(Decoder& result) override {
    if constexpr (CodableResult<R>) {
      typename ValueState<R>::Value value{};
      result(value);
      result.finish();
      this->set_value(std::move(value));
    }
  }

 private:
  static constexpr bool kSendable =
      std::is_member_function_pointer_v<Function> && CodableResult<R> && (true && ... && Codable<Stored>);

  const std::string* name_;  ///< the target's, which the state keeps
  Function function_;
  std::optional<std::tuple<Stored...>> args_;
};

}  // namespace nestor::actors::detail
