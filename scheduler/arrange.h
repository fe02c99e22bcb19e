#pragma once

#include <cstdint>
#include <vector>

#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// The same step with its microbatches in another order and with other owners. Free to choose: gradients are sums.
struct Arrangement {
  Workload workload;                ///< in the new numbering
  std::vector<std::int32_t> order;  ///< the given number of each microbatch; empty: unchanged
};

/// Ways to arrange a step whose microbatches differ in cost or lack a modality, worth planning one by one: a round
/// costs its slowest member, so microbatches of like cost should share one, and a lane should get as much work as the
/// next. The first keeps the given order; where all microbatches are alike there is no other, and owners stay. Owners
/// that the workload's file names are kept.
std::vector<Arrangement> arrangements(const Workload& workload);

}  // namespace nestor::scheduler
