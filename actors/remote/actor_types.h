#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <nestor/actors/codec.h>
#include <nestor/actors/runtime.h>

namespace nestor::actors::remote {

namespace detail_types {
template <class T>
struct SpawnArguments {
  using Type = std::tuple<>;
};
template <class T>
requires requires {
  typename T::SpawnArguments;
}
struct SpawnArguments<T> {
  using Type = typename T::SpawnArguments;
};
}  // namespace detail_types

/// What a T is made from when another process spawns it: `using SpawnArguments = std::tuple<int, std::string>;` in T,
/// or nothing.
template <class T>
using SpawnArgumentsOf = typename detail_types::SpawnArguments<T>::Type;

/// The actor types that other processes may spawn in this one: those compiled in and added, nothing else.
class ActorTypes {
 public:
  using Spawn = std::function<void(Runtime&, const ActorOptions&, Decoder&)>;

  template <std::derived_from<Actor> T>
  ActorTypes& add() {
    makers_[detail::type_name<T>()] = [](Runtime& runtime, const ActorOptions& options, Decoder& decoder) {
      SpawnArgumentsOf<T> arguments;
      decoder(arguments);
      decoder.finish();
      std::apply([&](auto&... values) { runtime.spawn<T>(options, std::move(values)...); }, arguments);
    };
    return *this;
  }
  /// Throws Error naming the types there are.
  const Spawn& find(const std::string& type) const {
    if (auto found = makers_.find(type); found != makers_.end()) return found->second;
    std::string names;
    for (const auto& [name, maker] : makers_) names += (names.empty() ? "" : ", ") + name;
    throw Error(type, "no actor type of this name can be spawned here",
                names.empty() ? "none is registered" : "there are: " + names);
  }

 private:
  std::map<std::string, Spawn> makers_;
};

}  // namespace nestor::actors::remote

namespace nestor {
using actors::remote::ActorTypes;
}
