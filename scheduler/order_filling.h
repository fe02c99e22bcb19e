#pragma once
/// Inside scheduler/: completes lane orders that a user gave in part.

#include <cstdint>
#include <vector>

#include <nestor/scheduler/dependencies.h>

namespace nestor::scheduler {

/// A row of a lane as given; its operator is that of the whole backward for halves and recomputation.
struct GivenRow {
  Operator row;
  OperatorId op;
};

/// Where orders that cannot go on stand.
struct Stuck {
  std::int32_t lane = -1;  ///< -1: nowhere, all rows ran
  std::size_t row = 0;     ///< of the lane's list as it was given
  OperatorId waits_for;    ///< invalid: for another part of its own operator
};

/// Runs the given rows of every lane in order and puts the workload's pool operators that are in none of them where
/// their lane has nothing else that could run: forwards before backwards, in the order in which the LLM takes their
/// microbatches, at most the pool's in_flight_cap (4 for encoders, 2 for generators) of a member at once unless the
/// given order forces more. On success `lanes` holds the complete orders. Near linear.
Stuck fill_orders(const Workload& workload, const Dependencies& dependencies,
                  std::vector<std::vector<GivenRow>>& lanes);

}  // namespace nestor::scheduler
