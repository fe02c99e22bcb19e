#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nestor/actors/actor.h>
#include <nestor/actors/future.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/method_table.h>
#include <nestor/actors/remote/node.h>
#include <nestor/launch/cluster/actor_host.h>
#include <nestor/launch/cluster/actor_spec.h>
#include <nestor/launch/cluster/agent.h>
#include <nestor/launch/cluster/placement.h>
#include <nestor/launch/cluster/rows.h>
#include <nestor/launch/cluster/settings.h>
#include <nestor/launch/cluster/watched_process.h>

namespace nestor::launch {

/// The actor "placement" of the head process: users' actors on the cluster's hosts. Chooses the host, has its process
/// started on first need and again after a death, makes actors anew as often as they may.
class PlacementActor final : public actors::Actor {
 public:
  /// `node` outlives it.
  PlacementActor(std::vector<Placement::Host> hosts, actors::remote::Node* node, ClusterSettings settings);
  static void describe(actors::MethodTable<PlacementActor>& table);

  // --- clients and actors ---
  /// Completes when the constructor has returned. Fails at once where no host has what it needs.
  actors::Future<ActorAddress> spawn(SpawnOrder order);
  /// Waits for one that is being made. Fails naming those that live, or what the actor died of.
  actors::Future<ActorAddress> find(std::string name);
  /// For good. Fails where it does not live.
  void kill(std::string name, std::string cause);
  /// The hosts' processes that were started, then users' actors, then the last dead ones.
  std::vector<ActorRow> actors() const;

  // --- processes ---
  void joined(actors::remote::NodeInfo info);
  void disconnected(actors::remote::NodeInfo info, std::string cause);
  void process_ended(std::uint64_t host, std::uint64_t generation, std::int64_t pid, std::string cause);
  void actor_ended(std::string name, std::uint64_t number, std::string cause);

  static constexpr const char* kName = "placement";
  static std::string node_of(std::size_t host) { return "actors" + std::to_string(host); }
  /// The agent's "lane" that is the process for users' actors.
  static constexpr std::int32_t kLane = -1;

 private:
  enum class State : std::uint8_t { pending, alive, restarting };
  struct Record {
    SpawnOrder order;  ///< its number is the incarnation's
    std::size_t host = 0;
    State state = State::pending;
    std::int32_t restarts = 0;
    std::string death_cause;
    std::vector<std::shared_ptr<actors::Promise<ActorAddress>>> waiting;
  };
  struct Process : WatchedProcess {
    actors::Handle<Agent> agent;  ///< empty where it is not there
    std::int32_t failures = 0;    ///< starts in a row that did not join
    actors::Handle<ActorHost> host;
  };
  using Records = std::map<std::string, Record>;

  void need(std::size_t host);
  void start(std::size_t host);
  ProcessWatch<PlacementActor> watch(std::size_t host);
  void make(Record& record);
  void made(const std::string& name, std::uint64_t number, const std::string& failure);
  void lose(std::size_t host, const std::string& cause);
  void bury(Records::iterator record, const std::string& cause);
  Record* find_record(const std::string& name, std::uint64_t number);
  ActorRow row_of(const Record& record) const;

  static constexpr int kMostFailures = 5;
  static constexpr std::size_t kObituaries = 64;

  Placement placement_;
  actors::remote::Node* const node_;
  const ClusterSettings settings_;
  std::vector<Process> processes_;
  Records records_;
  std::vector<ActorRow> dead_;
  std::uint64_t numbers_ = 0;
};

}  // namespace nestor::launch
