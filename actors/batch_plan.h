#pragma once

#include <cstdint>
#include <vector>

#include <nestor/actors/job.h>
#include <nestor/modules/batch.h>
#include <nestor/modules/model.h>

namespace nestor::actors {

/// Which samples form which microbatch of a step: fixed by (seed, step) alone, so that every lane, a restarted lane and
/// the plain reference derive the same. `microbatches * microbatch_size` samples; those of like modalities share
/// microbatches where that is possible. Cheap: nothing is read. Throws Error on an empty dataset.
modules::StepBatch make_step_batch(const modules::Model& model, const modules::Dataset& dataset,
                                   const ScheduleOptions& schedule, std::uint64_t seed, std::int64_t step);

/// About `samples` of the held-out split, each of its groups with an equal share and at least one, in microbatches of
/// the same size. The same at every call, randomness included. Empty where there is no held-out split.
modules::StepBatch make_evaluation_batch(const modules::Dataset& dataset, const ScheduleOptions& schedule,
                                         std::int64_t samples);

/// What a plan has to know of a batch. Coarse on purpose: steps of one shape share a plan.
struct BatchShape {
  static constexpr std::int32_t kEven = 4;  ///< a load of the mean
  /// By pool of the workload (encoders, then generators), by microbatch: 1 where it lacks the modality.
  std::vector<std::vector<std::uint8_t>> absent;
  /// By module (the LLM, then the pools), by microbatch: its work over the mean, in quarters, 1 to 16.
  std::vector<std::vector<std::int32_t>> load;
  std::int32_t microbatches = 0;
};
BatchShape shape_of(const modules::Model& model, const modules::StepBatch& batch);

/// The model's encoders, then its generators: a workload's pools in order.
std::vector<const modules::Model::Node*> pool_nodes(const modules::Model& model);

}  // namespace nestor::actors
