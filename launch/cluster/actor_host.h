#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nestor/actors/actor.h>
#include <nestor/actors/future.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/method_table.h>
#include <nestor/actors/remote/actor_types.h>
#include <nestor/launch/cluster/actor_spec.h>

namespace nestor::launch {

/// The actor of a host's process for users' actors: makes them, and reports their ends.
class ActorHost final : public actors::Actor {
 public:
  using Report = std::function<void(std::string name, std::uint64_t number, std::string cause)>;
  ActorHost(actors::remote::ActorTypes types, Report report) : types_(std::move(types)), report_(std::move(report)) {}
  static void describe(actors::MethodTable<ActorHost>& table);

  /// Throws Error naming the types there are, or what the constructor threw.
  void spawn(SpawnOrder order);
  /// Calls a method of an actor here, arguments and result as JSON (actors/text_call.h).
  actors::Future<std::string> call(std::string actor, std::string method, std::string arguments);

  static constexpr const char* kName = "nestor.host";
  static constexpr std::size_t kConstructors = 8;  ///< that may run at a time

 private:
  const actors::remote::ActorTypes types_;
  const Report report_;
};

}  // namespace nestor::launch
