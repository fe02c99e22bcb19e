#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nestor/actors/actor.h>
#include <nestor/actors/future.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/remote/node.h>
#include <nestor/launch/cluster/agent.h>
#include <nestor/launch/cluster/job_control.h>
#include <nestor/launch/cluster/job_rows.h>
#include <nestor/launch/cluster/rows.h>
#include <nestor/launch/cluster/settings.h>
#include <nestor/launch/cluster/watched_process.h>
#include <nestor/launch/cluster/worker.h>
#include <nestor/launch/run.h>

namespace nestor::launch {

/// A host as the cluster file has it.
struct HostPlan {
  std::string host;
  std::vector<std::int32_t> lanes;
};

/// The actor "cluster" of the head process: knows every process, has dead ones started again, owns the job. Its methods
/// are what clients call.
class HeadActor final : public actors::Actor {
 public:
  struct Plan {
    std::string name;
    std::vector<HostPlan> hosts;
    ClusterSettings settings;
  };
  /// `start_agent(host, start)` starts the agent of that host; one that still runs, stopped perhaps, is killed first.
  /// `node` outlives this actor.
  HeadActor(Plan plan, actors::remote::Node* node, ModelBuilder build,
            std::function<void(std::size_t, std::uint64_t)> start_agent, std::function<void()> leave);
  ~HeadActor() override;
  static void describe(actors::MethodTable<HeadActor>& table);

  // --- clients ---
  actors::Future<std::vector<ActorRow>> actors() const;
  std::vector<HostRow> nodes() const;
  std::vector<PoolRow> pools() const;
  ClusterRow status() const;
  /// Completes when every lane is ALIVE; fails with the cause when one is DEAD.
  actors::Future<void> whole();
  /// The workers, once each of them is ALIVE or DEAD.
  actors::Future<std::vector<ActorRow>> settled();
  /// The workers as they are.
  std::vector<ActorRow> workers() const;
  /// Starts a training. Fails where one is running.
  void train(TrainRequest request);
  actors::Future<JobOutput> output(std::uint64_t next);
  void stop_job();
  /// What drivers do with the job: job_control.h. They fail where nothing trains.
  actors::Future<JobRow> grant(std::int64_t steps);
  actors::Future<JobRow> run_on();
  actors::Future<JobRow> pause();
  actors::Future<JobAnswer> ask(JobRequest request);
  JobOutput look() const;
  std::vector<StepRow> history(std::int64_t after) const;
  /// Finishes the job's step, saves, ends all processes and the head.
  void down();

  // --- processes of the cluster ---
  void joined(actors::remote::NodeInfo info);
  void disconnected(actors::remote::NodeInfo info, std::string cause);
  /// From agents: a worker's process has ended.
  void worker_ended(std::int32_t lane, std::uint64_t generation, std::int64_t pid, std::string cause);
  /// From the head itself: the process of an agent's `start` has ended.
  void agent_ended(std::uint64_t host, std::uint64_t start, std::string cause);

  // --- the job ---
  std::uint64_t next_incarnation() { return ++incarnations_; }
  /// Completes with the faults beyond the first `known`, when there are such.
  actors::Future<std::vector<Fault>> faults_after(std::size_t known);
  std::size_t fault_count() const { return faults_.size(); }
  void job_ended();

  static std::string lane_node(std::int32_t lane) { return "lane" + std::to_string(lane); }
  static std::string agent_node(std::size_t host) { return "agent" + std::to_string(host); }

 private:
  struct LaneState : WatchedProcess {
    LaneState() { state = "PENDING"; }
    std::size_t host = 0;
  };
  struct AgentState {
    std::string state = "PENDING", death_cause;
    std::int64_t pid = 0;
    std::int32_t restarts = 0;
    std::uint64_t starts = 0;  ///< the number of the one that runs: an older one's end is no news
    actors::Handle<Agent> agent;
  };

  JobControl& job() const;              ///< Throws where there has been none.
  const JobControl* shown_job() const;  ///< The last one that began; null where there has been none.
  JobControl& living_job() const;       ///< Throws where there is none, or it has ended.
  ProcessWatch<HeadActor> watch(std::int32_t lane);
  void note_fault(const std::string& actor, std::size_t host, std::int64_t pid, const std::string& cause);
  void start_agent(std::size_t host);
  void start_worker(std::int32_t lane);
  void lane_lost(std::int32_t lane, const std::string& cause);
  void agent_lost(std::size_t host, const std::string& cause);
  void tell_whole();
  void end_everything();

  const Plan plan_;
  actors::remote::Node* const node_;
  const ModelBuilder build_;
  const std::function<void(std::size_t, std::uint64_t)> start_agent_;
  const std::function<void()> leave_;
  std::vector<LaneState> lanes_;
  std::vector<AgentState> agents_;
  std::vector<Fault> faults_;
  std::vector<std::shared_ptr<actors::Promise<void>>> waiting_whole_;
  std::vector<std::shared_ptr<actors::Promise<std::vector<ActorRow>>>> waiting_settled_;
  struct FaultWaiter {
    std::size_t known;
    std::shared_ptr<actors::Promise<std::vector<Fault>>> promise;
  };
  std::vector<FaultWaiter> waiting_faults_;
  std::uint64_t incarnations_ = 0;
  std::shared_ptr<JobControl> job_;
  std::shared_ptr<JobControl> last_job_;  ///< the one before, which is shown where job_ was refused before it began
  std::int32_t jobs_ = 0;
  bool leaving_ = false;  ///< `down` was called
  bool ending_ = false;   ///< ... and the job is over
};

}  // namespace nestor::launch
