#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nestor/modules/part.h>

namespace nestor::modules {

/// A step's global denominators, from the descriptors alone: every lane computes the same.
struct StepCounts {
  std::map<std::string, std::int64_t, std::less<>> counts;  ///< by loss name
  LossScales scales;                                        ///< weight / count; 0 where the count is 0
  std::int64_t tokens = 0;                                  ///< of the LLM's raw inputs
  std::int64_t samples = 0;
};
StepCounts step_counts(const Model& model, const StepBatch& batch);

/// What is reported of a step.
struct LossMeans {
  std::map<std::string, double> losses;  ///< sum / count; 0 where the count is 0
  double total = 0;                      ///< weighted
};
/// `sums`: over all microbatches; a loss not in it is 0.
LossMeans loss_means(const Model& model, const StepCounts& counts, const LossSums& sums);

void add_to(LossSums& total, const LossSums& more);

}  // namespace nestor::modules
