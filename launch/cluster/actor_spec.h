#pragma once

#include <cstdint>
#include <string>

#include <nestor/actors/codec.h>
#include <nestor/launch/cluster/placement.h>

namespace nestor {

/// What an actor on a cluster is called, needs, and survives.
struct ActorSpec {
  std::string name;  ///< unique among the cluster's living user actors; letters, digits and . _ - /
  Resources resources{};
  Place placement = Place::pack;
  std::string host{};                ///< as the cluster file names it; empty: any
  std::int32_t max_restarts = 0;     ///< deaths of its process after which it is made anew, from its first arguments
  std::int32_t max_concurrency = 1;  ///< threads that run its methods; with more than 1 its members need locks
  bool detached = false;             ///< lives on when the process that spawned it has left
  template <class Visit>
  void fields(Visit&& visit) {
    visit(name, resources, placement, host, max_restarts, max_concurrency, detached);
  }
};

}  // namespace nestor

namespace nestor::launch {

/// Where an actor lives.
struct ActorAddress {
  std::string node, type;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(node, type);
  }
};

/// A request to make an actor: of a client to the placement, and of that to the host's process.
struct SpawnOrder {
  ActorSpec spec;
  std::string type;       ///< of the compiled-in ones
  std::string arguments;  ///< encoded T::SpawnArguments
  std::string owner;      ///< node that asks: with it the actor dies, unless detached
  std::uint64_t number = 0;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(spec, type, arguments, owner, number);
  }
};

}  // namespace nestor::launch
