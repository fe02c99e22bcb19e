#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nestor/actors/job.h>
#include <nestor/actors/measured_costs.h>
#include <nestor/actors/messages.h>
#include <nestor/actors/workload_from_model.h>
#include <nestor/modules/outline.h>
#include <nestor/scheduler/plan.h>

namespace nestor::actors {

/// A plan, verified, and what each lane needs of it.
struct PreparedPlan {
  std::shared_ptr<const scheduler::Plan> plan;
  std::uint64_t digest = 0;  ///< of the table and the microbatches' order
  std::vector<LanePlan> rows;
  std::vector<Placement> placements;
};

/// Makes the plan of a step, or finds the one it made for a batch of that shape (BatchShape). Costs
/// are estimates until some steps have been measured. No thread of its own, no clock.
class StepPlanner {
 public:
  /// Cuts the model by what the microbatches of `batch` cost. Throws Error.
  StepPlanner(std::shared_ptr<const JobSpec> spec, const modules::StepBatch& batch);

  /// Throws scheduler::Error where there can be no such plan, Error where the one made is unsound.
  std::shared_ptr<const PreparedPlan> prepare(const ScheduleOptions& schedule, const modules::StepBatch& batch,
                                              bool forward_only);
  /// What a training step of that plan took. Now and then later plans are made from it.
  void add_measured(const PreparedPlan& prepared, const std::vector<LaneReport>& reports);

 private:
  std::shared_ptr<const PreparedPlan> make(const ScheduleOptions& schedule, const BatchShape& shape,
                                           bool forward_only) const;

  std::shared_ptr<const JobSpec> spec_;
  modules::Outline outline_;
  ModelCut cut_;
  StageCosts costs_;
  MeasuredCosts measured_;
  std::map<std::string, std::shared_ptr<const PreparedPlan>> made_;  ///< by everything the plan hangs on
};

}  // namespace nestor::actors
