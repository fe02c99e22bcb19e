#pragma once

#include <cstdint>
#include <vector>

#include <nestor/scheduler/lane_orders.h>
#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// Local search on where modality operators stand: moves one of them a few places within its lane, keeps the move where
/// the makespan does not grow and the caps hold. The LLM's order cannot change: only modality operators move, and
/// those of the LLM keep their order around them. Returns the makespan reached.
///
/// `caps`: per pool (index: module - 1), of each member. `work`: operators timed in all, so that small plans get many
/// tries and large ones none. Deterministic: a fixed sequence of pseudo-random moves.
double improve(const Dependencies& dependencies, const Workload& workload, const std::vector<std::int32_t>& caps,
               std::int64_t work, LaneOrders& orders);

}  // namespace nestor::scheduler
