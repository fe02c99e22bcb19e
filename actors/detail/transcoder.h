#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include <nestor/actors/codec.h>
#include <nestor/actors/plain.h>

namespace nestor::actors::detail {

/// A method's arguments as text turned into the bytes that another process would send, and its result's bytes into
/// text.
struct Transcoder {
  std::function<std::string(const Plain::List& arguments, remote::Node* node)> arguments;
  std::function<Plain(Encoded result, remote::Node* node)> result;
};

/// Empty functions where a type cannot be written as text.
template <class R, class... Stored>
Transcoder transcoder_of() {
  if constexpr ((Plainable<Stored> && ... && true) && (std::is_void_v<R> || Plainable<R>)) {
    return {[](const Plain::List& arguments, remote::Node* node) {
              if (arguments.size() != sizeof...(Stored))
                throw Error("call", "takes " + std::to_string(sizeof...(Stored)) + " arguments, " +
                                        std::to_string(arguments.size()) + " are given");
              std::tuple<Stored...> values;
              [[maybe_unused]] std::size_t at = 0;
              std::apply([&](Stored&... stored) { (PlainForm<Stored>::read(arguments[at++], stored), ...); }, values);
              Encoder encoder(node);
              std::apply([&](const Stored&... stored) { encoder(stored...); }, values);
              return encoder.take();
            },
            []([[maybe_unused]] Encoded result, [[maybe_unused]] remote::Node* node) {
              if constexpr (std::is_void_v<R>) {
                return Plain();
              } else {
                R value{};
                Decoder decoder(Decoder::Owned(std::move(result)), node);
                decoder(value);
                return to_plain(value);
              }
            }};
  } else {
    return {};
  }
}

}  // namespace nestor::actors::detail
