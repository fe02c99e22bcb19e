#pragma once

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// How a backward's cost is shared where an order has it in halves.
inline constexpr double kInputShare = 0.5;

/// Completes a plan that holds no more than an order of compute rows for every lane: a schedule of a user's own, or an
/// imported table. Fills in times (every operator as early as its lane and its needs allow), transfers in pair-atomic
/// order (lowering.h) unless the plan has some already, reduce and update rows unless it has some, makespan and peaks.
/// Rows may be whole or split backwards and recomputation; halves that state a duration keep it, others share the
/// backward's cost by `kInputShare`. Throws Error, with the place, where the rows are not the workload's or wait for
/// each other in a circle. Linear but for one sort. What transfers the plan brought are not checked here.
void complete(Plan& plan);

}  // namespace nestor::scheduler
