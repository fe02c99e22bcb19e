#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nestor/actors/pool.h>
#include <nestor/actors/remote/node.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/actor_spec.h>
#include <nestor/launch/cluster/rows.h>

namespace nestor {

/// A running cluster, for actors of one's own: spawns them on its hosts by the types that the program handed to
/// nestor::run, finds them by name, ends them. Handles are used as those of one process. Any thread.
class Cluster {
 public:
  /// Joins the cluster of that name; the only one that runs where it is empty. Throws launch::InputError where there is
  /// none, launch::WorkError where it does not answer. What this process spawned and did not detach dies when it
  /// leaves.
  explicit Cluster(const std::string& name = "");
  /// The cluster that this runtime's process belongs to: `nestor::Cluster cluster(runtime());` in an actor's method.
  /// Throws Error where it belongs to none.
  explicit Cluster(actors::Runtime& runtime);
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  /// Makes a T from T::SpawnArguments on the host that the cluster chooses, and waits for its constructor. Throws Error
  /// at once where no host has what it needs (naming the shortfall) or the type is not registered (naming those that
  /// are), ActorDied with what the constructor threw.
  template <std::derived_from<actors::Actor> T, class... Args>
  actors::Handle<T> spawn(ActorSpec spec, Args&&... args) {
    actors::Encoder encoder(&node());
    encoder(actors::remote::SpawnArgumentsOf<T>(std::forward<Args>(args)...));
    const std::string name = spec.name;
    return at<T>(name, ask_for(std::move(spec), actors::detail::type_name<T>(), encoder.take()));
  }
  /// Waits for one that is being made or restarted. Throws Error naming those that live, or the type where it is no T;
  /// ActorDied with the cause of death; CallTimeout. A handle is of one life of the actor: after a restart find it
  /// anew.
  template <std::derived_from<actors::Actor> T>
  actors::Handle<T> find(const std::string& name, std::chrono::nanoseconds limit = std::chrono::seconds(30)) {
    return at<T>(name, locate(name, limit));
  }
  /// `size` actors NAME/0, NAME/1, ... that share work; they end with the pool.
  template <std::derived_from<actors::Actor> T, class... Args>
  actors::ActorPool<T> pool(const ActorSpec& spec, std::size_t size, const Args&... args) {
    std::vector<actors::Handle<T>> members;
    try {
      for (std::size_t i = 0; i < size; ++i) {
        ActorSpec member = spec;
        member.name += "/" + std::to_string(i);
        members.push_back(spawn<T>(std::move(member), args...));
      }
    } catch (...) {
      for (const auto& member : members) member.kill("its pool could not be made");
      throw;
    }
    return actors::ActorPool<T>(spec.name, std::move(members));
  }
  /// Ends it for good; it is not restarted. Throws Error where it does not live.
  void kill(const std::string& name, const std::string& cause = "it was killed");
  /// Calls a method that the actor lists, arguments as a JSON array, and waits for its result, as JSON: for programs
  /// that do not have the actor's type (actors/text_call.h). Throws Error.
  std::string call(const std::string& actor, const std::string& method, const std::string& arguments);
  /// As `nestor list actors` prints them, the cluster's own included.
  std::vector<launch::ActorRow> actors();

  /// For actors in this process: those that watch others, say.
  actors::Runtime& runtime();
  actors::remote::Node& node();

 private:
  template <class T>
  actors::Handle<T> at(const std::string& name, const launch::ActorAddress& address) {
    if (address.type != actors::detail::type_name<T>())
      throw actors::Error(name, "is a " + address.type + ", not a " + actors::detail::type_name<T>(),
                          "find it by its own type");
    return node().template find<T>(address.node, name);
  }
  launch::ActorAddress ask_for(ActorSpec spec, std::string type, std::string arguments);
  launch::ActorAddress locate(const std::string& name, std::chrono::nanoseconds limit);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor
