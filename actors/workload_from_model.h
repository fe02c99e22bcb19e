#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nestor/actors/batch_plan.h>
#include <nestor/actors/job.h>
#include <nestor/actors/messages.h>
#include <nestor/modules/outline.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/workload.h>

namespace nestor::actors {

/// What operators cost, in seconds, by place (model stages, then pools). Estimated from floating-point operations, or
/// measured.
struct StageCosts {
  std::vector<double> forward, backward;
};

/// Where the LLM is cut and what everything costs before anything has run: from forward_flops of the modules over the
/// microbatches of a first step, heads counted with the last stage; a backward is twice its forward.
struct ModelCut {
  std::vector<std::int32_t> first_layer;  ///< model stages + 1 offsets; every layer is in one stage
  StageCosts estimate;
};
/// Throws Error where there are fewer layers than stages.
ModelCut cut_model(const modules::Model& model, const modules::Outline& outline, const ScheduleOptions& schedule);

/// The workload of a step of that shape. Pools on the lanes that the schedule names; what is trainable from the freeze
/// patterns; inputs of generators from the model. Throws Error for pools that the model does not have.
scheduler::Workload make_workload(const modules::Model& model, const modules::Outline& outline,
                                  const ScheduleOptions& schedule, const StageCosts& costs, const BatchShape& shape,
                                  bool forward_only);

/// What lives where under a plan's resolved workload: one placement for each lane, with nothing to hand over.
std::vector<Placement> place_model(const modules::Model& model, const modules::Outline& outline, const ModelCut& cut,
                                   const scheduler::Workload& workload);
/// The reductions that trainable parameters on several lanes need beyond the pools' own: tied weights. One for each
/// set of lanes.
std::vector<scheduler::Reduction> tied_reductions(const modules::Model& model, const modules::Outline& outline,
                                                  const std::vector<Placement>& placements,
                                                  const scheduler::Workload& workload);
/// Fills in who hands what to whom when `before` becomes `after`: a parameter comes from the lowest lane that has it.
void add_handovers(const std::vector<Placement>& before, std::vector<Placement>& after);

}  // namespace nestor::actors
