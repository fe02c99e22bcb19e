#pragma once

#include <cstdint>
#include <vector>

#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {

/// At most how many microbatches each member of a pool holds; by pool (index: module - 1).
using Caps = std::vector<std::int32_t>;

/// `wanted`, but no less than what the LLM's order forces: an encoder's member holds a microbatch from before F(m, 0)
/// until after B(m, 0).
Caps at_least_forced(Caps wanted, const Workload& workload, const Dependencies& dependencies, const LaneOrders& llm);

/// Does every member hold at most its cap?
bool within(const Caps& caps, const Workload& workload, const Dependencies& dependencies, const LaneOrders& orders);

struct Placement {
  Schedule schedule;
  double makespan;  ///< seconds; infinity where every try got stuck
};

/// The best of a portfolio of list-scheduling rules around the backbone with `extra_warmup`.
Placement place(const Workload& workload, const Dependencies& dependencies, std::int32_t extra_warmup,
                const Caps& caps);

/// Also searches the extra warm-up: the smallest of `candidates` (ascending) within 1% of the best.
Placement place_with_search(const Workload& workload, const Dependencies& dependencies,
                            const std::vector<std::int32_t>& candidates, const Caps& caps);

}  // namespace nestor::scheduler::policies
