#pragma once

#include <cstdint>
#include <vector>

#include <nestor/scheduler/earliest_times.h>
#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// Peak microbatches in flight, [module][lane]: forward ran, backward (if there is one) has not. The LLM's in units of
/// a lane's full share, so a chunk counts 1/V. The form of `Plan::in_flight`.
std::vector<std::vector<double>> peak_in_flight(const Workload& workload, const Dependencies& dependencies,
                                                const LaneOrders& orders, std::int32_t lanes);

/// What a lane does in a step.
struct LaneReport {
  double busy = 0;                ///< seconds of compute
  double utilisation = 0;         ///< busy / makespan
  std::int64_t peak_bytes = 0;    ///< the most the lane holds at once, resident bytes included
  bool over_memory = false;       ///< peak_bytes breaks the workload's memory cap
  double over_at = 0;             ///< seconds: when that happens first
  std::vector<BytesPoint> bytes;  ///< what the lane holds over time (memory.h)
};

/// A plan's figures, from its lane orders and its workload's costs; the times inside the plan are not used.
struct Simulation {
  double makespan = 0;     ///< seconds; reduce and update not counted
  double work_bound = 0;   ///< seconds of the busiest lane: no order of the same work on the same lanes is shorter
  double utilisation = 0;  ///< mean over the lanes that compute
  double bubble = 0;       ///< 1 - utilisation
  std::vector<LaneReport> lanes;
  std::vector<std::vector<double>> in_flight;  ///< [module][lane], as Plan::in_flight
  std::int64_t transfers = 0;                  ///< send and recv pairs
  std::int64_t transfer_bytes = 0;             ///< their payload
};

/// Throws Error where the plan's rows are not its workload's operators or its lane orders deadlock (the verifier says
/// more about either).
Simulation simulate(const Plan& plan);

/// The lane orders of a plan's compute rows. Throws Error where a row is none of the workload's, or on another lane.
LaneOrders lane_orders(const Dependencies& dependencies, const OperatorTable& table);

}  // namespace nestor::scheduler
