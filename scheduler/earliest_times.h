#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <nestor/scheduler/lane_orders.h>

namespace nestor::scheduler {

/// When each operator runs if every one starts as soon as its lane is free and what it needs has arrived.
/// Indexed by operator number; seconds; an operator that never ran has an end below 0.
struct Times {
  std::vector<double> start;
  std::vector<double> end;
  std::vector<std::uint32_t> rank;  ///< a topological order of the operators (lane orders and needs)
  double makespan = 0;
  std::int32_t ran = 0;  ///< operators that ran

  bool complete(const LaneOrders& orders) const { return ran == static_cast<std::int32_t>(orders.operators.size()); }
};

struct TimingOptions {
  /// The orders hold LLM operators alone: what those need of pools counts as ready.
  bool llm_only = false;
  /// Where given, the LLM's backward of microbatch m on the last stage also waits for the forward of
  /// microbatch gate[m] there (-1: for nothing).
  std::span<const std::int32_t> gate;
};

/// One pass, linear in operators and needs, no event queue: a lane runs until it meets an operator whose need is not
/// there yet and is taken up again when it comes. Lane orders that deadlock give an incomplete result.
Times earliest_times(const Dependencies& dependencies, const LaneOrders& orders, const TimingOptions& options = {});

}  // namespace nestor::scheduler
