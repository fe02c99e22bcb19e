#pragma once

#include <cstdint>
#include <vector>

#include <nestor/scheduler/planner.h>

namespace nestor::scheduler {

/// Bytes that a lane holds from `at` (seconds from the step's start) until the next point.
struct BytesPoint {
  double at = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const BytesPoint&, const BytesPoint&) = default;
};

/// What every lane holds over time, [lane], from the workload's bytes and the earliest times of the plan's orders:
/// - its resident bytes, all the time;
/// - a module's stash_bytes from the start of a forward to the end of its backward (with halves, of the weight half);
///   nothing where there is no backward. A module that recomputes keeps only its input from the forward on, at most the
///   message_bytes of what it read, and the rest of the stash from the start of the recompute row;
/// - a message from the moment it is made until its reader starts, on the reader's lane (receives are posted early);
///   while it travels, also on the sender's. A dependency within a lane waits in the same way.
/// Points in ascending time, no two at one time; the first is at 0. Throws Error where the rows are not the workload's
/// or wait for each other in a circle.
std::vector<std::vector<BytesPoint>> bytes_over_time(const Plan& plan);

/// No plan within memory.bytes_per_lane was found.
class MemoryError : public Error {
 public:
  /// `needed`: bytes on `lane` at `at` seconds, in the leanest plan found.
  MemoryError(const Workload& workload, const std::string& policy, LaneId lane, std::int64_t needed, double at);
  LaneId lane() const { return lane_; }
  std::int64_t needed() const { return needed_; }

 private:
  LaneId lane_;
  std::int64_t needed_;
};

/// `make_plan` within the workload's memory cap: plans, looks where the cap is broken, and lowers the caps on
/// activations in flight of the pool members on that lane until it holds, at last with less extra warm-up; if
/// `request.may_recompute`, modules then recompute, those with most activations first. Throws MemoryError where that is
/// not enough.
Plan plan_within_memory(const Workload& workload, const PlanRequest& request);

}  // namespace nestor::scheduler
