#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nestor/actors/job.h>
#include <nestor/actors/lane_program.h>
#include <nestor/actors/op_dispatch.h>
#include <nestor/comm/channel.h>
#include <nestor/modules/part.h>
#include <nestor/modules/train/checkpoint.h>

namespace nestor::actors {

/// A lane's share of a job: parameters, optimizer state, its row of the current plan. Belongs to the lane's own thread,
/// but for `abort`, `version` and `doing`.
class Lane {
 public:
  Lane(std::int32_t lane, std::shared_ptr<const JobSpec> spec, comm::Channel& channel);
  ~Lane();

  /// Makes what the placement adds, hands over and takes state; nothing of it shows before `settle(true)`. Throws
  /// Error, Aborted or what a factory throws.
  void stage(const Placement& placement);
  /// Puts what is staged in place, and drops what is no longer here with the row; or drops what is staged.
  void settle(bool commit);
  /// Checks and compiles a row. One that is refused fails the run that asks for it.
  void install(LanePlan plan);
  /// Walks the row in order. Never throws: how it ended is in the report. After any end but `done` the lane holds its
  /// gradients until `resolve`.
  LaneReport run(const RunStep& message);
  /// Ends what an aborted step left open; see Resolve.
  void resolve(const Resolve& message);
  /// Between runs.
  void connect(comm::Channel& channel) { channel_ = &channel; }

  /// Ends a run of `generation` or older: its waits at once, its computing at the next operator. Any thread.
  void abort(std::uint64_t generation, const std::string& cause);
  /// Steps that the parameters have seen. Any thread.
  std::int64_t version() const { return version_; }
  /// The operator under way, in words; empty between runs. Any thread.
  std::string doing() const;

  /// Writes what the lane owns; nothing, and a file without a name, where that is nothing. Throws modules::Error.
  modules::CheckpointFile save(const modules::CheckpointWriter& writer) const;
  /// Reads and checks all that this lane needs; `adopt` then puts it in place and cannot fail. Throws modules::Error.
  void read(const std::filesystem::path& folder);
  void adopt(std::int64_t version);
  /// Copies of the parameters that the lane owns, and of their gradients (trainable ones; zeros where absent).
  modules::NamedTensors parameters() const;
  modules::NamedTensors gradients() const;

 private:
  struct Place {
    Placement::Piece piece;
    std::shared_ptr<modules::Part> part;
  };
  /// All that a placement decides.
  struct Holdings {
    Placement placement;
    std::vector<Place> places;
    modules::ParameterStore store;
    std::unique_ptr<modules::Optimizer> optimizer;  ///< over the trainable ones
    std::vector<bool> counted;                      ///< by the optimizer's parameters
  };

  void make(const Placement& placement, Holdings& next) const;
  void walk(const RunStep& message, const LaneLink& link, LaneReport& report);
  void reduce(const LaneLink& link, const scheduler::Operator& op, OpTime& time);
  void update(const LaneLink& link, std::int64_t step, LaneReport& report, OpTime& time);
  LaneLink link(std::uint64_t generation, std::uint64_t run, std::int64_t deadline_ms) const;
  std::vector<modules::Optimizer::Parameters> find_reductions(const LanePlan& plan) const;
  OpDispatch::Place dispatch_place(const LanePlan& plan, std::int32_t place) const;
  std::string name() const { return "lane" + std::to_string(lane_); }

  const std::int32_t lane_;
  const std::shared_ptr<const JobSpec> spec_;
  std::atomic<comm::Channel*> channel_;

  Holdings here_;
  std::unique_ptr<Holdings> staged_;
  modules::NamedTensors read_;  ///< between `read` and `adopt`

  std::shared_ptr<const LaneProgram> program_;  ///< under program_mutex_ where it is changed, or read by others
  mutable std::mutex program_mutex_;
  std::unique_ptr<OpDispatch> dispatch_;
  std::vector<modules::Optimizer::Parameters> reductions_;  ///< by reduction of the plan: what this lane sums
  std::string refusal_;                                     ///< why the last row was refused
  std::vector<OpTime> times_;

  std::atomic<std::int64_t> version_{0};
  std::atomic<std::int64_t> at_{-1};       ///< the operator under way
  std::atomic<std::uint64_t> aborted_{0};  ///< generations up to this one are over; generations count from 1
};

}  // namespace nestor::actors
