#pragma once

#include <cstdint>
#include <vector>

#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {

/// At most how many microbatches each member of a pool holds; by pool (index: module - 1).
using Caps = std::vector<std::int32_t>;

/// What `nested` allows where the workload names no cap: 4 * ceil(P / size).
Caps nested_caps(const Workload& workload);

/// What `filled` allows where the workload names no cap: 4 for encoders, or what the LLM's order forces (a member
/// holds a microbatch from before F(m, 0) until after B(m, 0)), 2 for generators.
Caps filled_caps(const Workload& workload, const Dependencies& dependencies, const LaneOrders& llm);

/// Does every member hold at most its cap?
bool within(const Caps& caps, const Workload& workload, const Dependencies& dependencies, const LaneOrders& orders);

struct Placement {
  Schedule schedule;
  double makespan;  ///< seconds; infinity where every try got stuck

  bool found() const;
  void keep_better(Placement&& other) {
    if (other.makespan < makespan) *this = std::move(other);
  }
};

/// How far a search goes.
struct SearchLimits {
  double target = 0;              ///< seconds: good enough to stop at
  std::int64_t work = 0;          ///< operators placed in all (50 ns each); never less than `least`
  std::int32_t least = 2;         ///< tries
  std::int64_t improve_work = 0;  ///< operators timed in the local search that follows a missed target (5 ns each)
};

/// Places modality operators around the backbone by list scheduling: a first rule at every one of `warmups`
/// (ascending), then all rules at the most promising of them, then a local search (improve.h) from the best few. The
/// smallest warm-up that reaches the target, else one within a percent of the best where that is still close to the
/// target, else the best.
Placement search_placement(const Workload& workload, const Dependencies& dependencies,
                           const std::vector<std::int32_t>& warmups, const Caps& caps, const SearchLimits& limits);

}  // namespace nestor::scheduler::policies
