#pragma once

#include <vector>

#include <nestor/actors/job.h>
#include <nestor/actors/step_planner.h>
#include <nestor/modules/train/counts.h>

namespace nestor::actors {

/// Sums over lanes in their order.
modules::LossSums total_losses(const std::vector<LaneReport>& reports);

/// Idle share of the lanes' time until the last compute operator of any; waiting counts as idle.
double measured_bubble(const PreparedPlan& prepared, const std::vector<LaneReport>& reports);

scheduler::Timeline measured_timeline(const PreparedPlan& prepared, const std::vector<LaneReport>& reports,
                                      std::int64_t step);

/// A step's report from its lanes'; `seconds` is the caller's to fill in.
StepReport make_step_report(const modules::Model& model, const modules::StepCounts& counts,
                            const PreparedPlan& prepared, const std::vector<LaneReport>& reports, std::int64_t step,
                            bool trace);

}  // namespace nestor::actors
