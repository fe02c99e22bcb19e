#pragma once

#include <cstdint>

#include <nestor/scheduler/lane_orders.h>
#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// True where every LLM stage lives on lane stage mod P: the backbones are defined for that placement alone.
bool has_standard_placement(const Workload& workload);

/// The LLM's order on every lane; existing rows only.
///
/// V = 1: 1F1B (PipeDream-Flush; Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021). V > 1: the
/// interleaved order (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021), for an
/// M that P does not divide that of the next multiple of P with the surplus struck out. `extra_warmup` forwards are
/// added to each lane's warm-up.
///
/// Other placements get a `custom` order: 1F1B over the model stages, each lane taking the next of its stages'
/// operators that is ready, backwards first.
LaneOrders backbone(const Dependencies& dependencies, const Workload& workload, std::int32_t extra_warmup);

}  // namespace nestor::scheduler
