#pragma once

#include <string>

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// A row in words: "backward llm stage 3 microbatch 5", "recv gradient llm stage 1 -> llm stage 0 microbatch 2 from
/// lane 1", "reduce vision". Never throws: what the workload does not know is named by its number.
std::string describe(const Workload& workload, const Operator& op);

/// A row's place: "lane 2, operator 14 (backward llm stage 3 microbatch 5)"; operators of a lane count from 0.
std::string describe(const Plan& plan, LaneId lane, std::size_t operator_of_lane);

}  // namespace nestor::scheduler
