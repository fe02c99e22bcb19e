#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nestor::scheduler {

/// What grouping needs to know of one sample of a step's batch.
struct SampleCost {
  double llm = 0;             ///< relative cost of its tokens
  std::vector<double> pools;  ///< relative cost for each pool, 0 where it lacks the modality
};

/// Groups a step's samples into `microbatches` groups of at most `group_size`; returns indices into `samples`.
/// Samples with the same modalities share a microbatch where that is possible (a pool's rows of the others then do
/// not exist), and groups are balanced by cost. Deterministic. Throws Error where the samples do not fit.
std::vector<std::vector<std::int32_t>> group_samples(std::span<const SampleCost> samples, std::int32_t microbatches,
                                                     std::int32_t group_size);

}  // namespace nestor::scheduler
