#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nestor/actors/actor.h>
#include <nestor/actors/executor.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/peer_clock.h>
#include <nestor/actors/step_phase.h>
#include <nestor/actors/step_planner.h>
#include <nestor/modules/train/counts.h>

namespace nestor::actors {

/// The actor that owns a job's plan: has it made and verified, hands executors their rows, starts steps, confirms that
/// what ran is what was planned, and aborts a step everywhere when it fails anywhere. Never waits for a lane: answers
/// come as messages, so an abort is taken at once. One request at a time; a second one fails.
class SchedulerActor final : public Actor {
 public:
  SchedulerActor(std::shared_ptr<const JobSpec> spec, std::shared_ptr<LaneSource> lanes);

  /// Puts the model on its lanes. First.
  Future<void> start();
  Future<StepReport> step(bool trace);
  /// Mean losses over about `samples` of the held-out split; empty where there is none.
  Future<std::map<std::string, double>> evaluate(std::int64_t samples);
  /// Plans by `schedule` from now on (policy and pools may differ) and moves what has to move. When it fails, the old
  /// one holds.
  Future<void> reconfigure(ScheduleOptions schedule);
  /// Ends what is under way, with this cause. Nothing where nothing is, or where the update has been decided.
  void abort(std::string cause);

  std::shared_ptr<const scheduler::Plan> plan() const { return last_plan_; }
  std::int64_t steps_done() const { return version_; }
  /// After executors have adopted a checkpoint's parameters.
  void set_steps_done(std::int64_t steps);
  /// Throws Error unless idle.
  std::vector<Handle<Executor>> lanes() const;
  Phase phase() const { return phase_; }

 private:
  /// The request under way.
  struct Work {
    std::shared_ptr<const PreparedPlan> prepared;
    std::optional<RunStep> run;  ///< none: only a placement
    std::vector<Placement> placements;
    std::vector<LaneReport> reports;                 ///< by lane
    std::vector<bool> answered;                      ///< by lane, in the current phase
    bool finish_update = false;                      ///< resolving: the update had been decided when the step failed
    std::string cause;                               ///< of the first failure
    std::int64_t deadline_ns = 0;                    ///< of the current phase
    std::function<void()> done;                      ///< completes the caller's promise
    std::function<void(std::exception_ptr)> failed;  ///< likewise
  };

  /// Fails the promise that `work` is to complete with what `prepare` throws, else starts the work.
  template <class R, class Prepare>
  Future<R> begin(Prepare prepare);
  void go(PhaseEvent event) { phase_ = next_phase(phase_, event); }
  void place();
  void placed(std::size_t lane, const std::string& failure);
  void send_rows();
  void lane_done(std::size_t lane, LaneReport report);
  void fail(const std::string& cause);
  void drained();
  void resolved(std::size_t lane, const std::string& failure);
  void complete();
  void break_down(const std::string& why);
  void finish(std::exception_ptr error);
  void expect_answers(std::size_t lanes, std::chrono::nanoseconds limit);
  bool all_answered(std::size_t lane);
  void look_after(std::uint64_t id);
  std::string silent_lanes();
  void require_idle() const;
  /// Calls `then(actor, future)` in this actor once the future is there, unless the work is over by then.
  template <class R, class Then>
  void when_done(Future<R> future, Then then);

  const std::shared_ptr<const JobSpec> spec_;
  const std::shared_ptr<LaneSource> lanes_;
  ScheduleOptions schedule_;
  std::unique_ptr<StepPlanner> planner_;
  std::vector<Handle<Executor>> executors_;
  std::vector<PeerClock> clocks_;  ///< by lane
  std::vector<Placement> placements_;
  std::shared_ptr<const scheduler::Plan> last_plan_;
  std::uint64_t installed_ = 0;  ///< digest of the plan whose rows the lanes have; 0: none
  Phase phase_ = Phase::idle;
  std::string broken_because_;
  std::optional<Work> work_;
  std::uint64_t work_id_ = 0;
  std::int64_t timer_ns_ = 0;  ///< when the earliest timer under way fires; 0: none
  std::uint64_t generation_;
  std::uint64_t run_ = 0;
  std::int64_t version_ = 0;
};

}  // namespace nestor::actors
