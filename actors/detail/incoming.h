#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nestor/actors/codec.h>
#include <nestor/actors/detail/call.h>
#include <nestor/actors/detail/transcoder.h>

namespace nestor::actors::detail {

/// A call that another process made, and where its answer goes.
struct Incoming {
  std::string from;  ///< who made it, and under which number
  std::uint64_t id = 0;
  std::string method;
  Decoder::Owned arguments;
  remote::Node* node = nullptr;
  std::shared_ptr<comm::BlockPool> memory;  ///< for tensors of the result
  /// Called once, in any thread: the result, or what went wrong.
  std::function<void(Encoded result, std::exception_ptr error)> reply;
};

/// It as a task of the actor: reads the arguments and calls the method in the actor's thread.
template <class T, class Method, class Returned, class... Stored>
class IncomingCall final : public ValueState<typename ResultOf<Returned>::Type>, public Task {
 public:
  using R = typename ResultOf<Returned>::Type;

  IncomingCall(std::shared_ptr<Cell> target, Method method, Incoming incoming)
      : ValueState<R>(std::move(target)), method_(method), incoming_(std::move(incoming)) {}

  static std::shared_ptr<IncomingCall> make(std::shared_ptr<Cell> target, Method method, Incoming incoming) {
    auto call = std::make_shared<IncomingCall>(std::move(target), method, std::move(incoming));
    call->on_done([weak = std::weak_ptr<IncomingCall>(call)] {
      if (auto done = weak.lock()) done->answer();
    });
    return call;
  }

  bool run(Cell& cell) override {
    if (this->done()) return false;
    T& object = static_cast<T&>(cell.object());
    return settle<R>(
        *this, cell.name(), [this] { return incoming_.method; },
        [&]() -> Returned {
          std::tuple<Stored...> arguments;
          Decoder decoder(std::move(incoming_.arguments), incoming_.node);
          std::apply([&](Stored&... stored) { decoder(stored...); }, arguments);
          decoder.finish();
          return std::apply(
              [&](Stored&... stored) -> Returned { return std::invoke(method_, object, std::move(stored)...); },
              arguments);
        });
  }
  void abandon(std::exception_ptr error) override { this->fail(std::move(error)); }
  bool settled() const override { return this->done(); }
  bool is_call(const std::string& from, std::uint64_t id) const override {
    return id == incoming_.id && from == incoming_.from;
  }

 private:
  void answer() {
    Encoded result;
    std::exception_ptr error;
    try {
      result = Encoder(incoming_.node, incoming_.memory).attach(this->take());
    } catch (...) {
      error = std::current_exception();
    }
    incoming_.reply(std::move(result), std::move(error));
  }

  Method method_;
  Incoming incoming_;
};

using MakeIncoming = std::function<std::shared_ptr<Task>(const std::shared_ptr<Cell>&, Incoming)>;

template <class T, class Method, class Returned, class... P>
MakeIncoming incoming_of(Method method) {
  using R = typename ResultOf<Returned>::Type;
  if constexpr (CodableResult<R> &&
                ((Codable<std::decay_t<P>> && std::is_default_constructible_v<std::decay_t<P>>)&&...)) {
    return [method](const std::shared_ptr<Cell>& cell, Incoming incoming) -> std::shared_ptr<Task> {
      return IncomingCall<T, Method, Returned, std::decay_t<P>...>::make(cell, method, std::move(incoming));
    };
  } else {
    return {};
  }
}
template <class C, class R, class... P>
Transcoder make_transcoder(R (C::*)(P...)) {
  return transcoder_of<typename ResultOf<R>::Type, std::decay_t<P>...>();
}
template <class C, class R, class... P>
Transcoder make_transcoder(R (C::*)(P...) const) {
  return transcoder_of<typename ResultOf<R>::Type, std::decay_t<P>...>();
}
template <class T, class C, class R, class... P>
MakeIncoming make_incoming(R (C::*method)(P...)) {
  return incoming_of<T, R (C::*)(P...), R, P...>(method);
}
template <class T, class C, class R, class... P>
MakeIncoming make_incoming(R (C::*method)(P...) const) {
  return incoming_of<T, R (C::*)(P...) const, R, P...>(method);
}

}  // namespace nestor::actors::detail
