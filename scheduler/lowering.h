#pragma once

#include <span>

#include <nestor/scheduler/earliest_times.h>
#include <nestor/scheduler/operator_table.h>
#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// The reductions of a workload: every trainable pool that has members on several lanes, in module order, then `tied`.
std::vector<Reduction> reductions_of(const Workload& workload, std::span<const Reduction> tied);

/// Turns lane orders into the full table: compute rows with their times; a send and a recv for every dependency that
/// crosses lanes; after a lane's last compute row its reductions, in one order everywhere, and the update of every lane
/// that holds parameters. `lanes` may exceed the workload's: the further lanes are empty.
///
/// Transfers stand in *pair-atomic* order: operators are walked by the time they end, and where one ends its sends and
/// their receives go to the ends of both lanes' rows together. All lanes' rows are then parts of one order in which
/// each transfer takes place at once, so the table cannot hang under any transport, one queue per lane included.
OperatorTable lower(const Workload& workload, const Dependencies& dependencies, const LaneOrders& orders,
                    const Times& times, std::vector<Reduction> reductions, std::int32_t lanes);

}  // namespace nestor::scheduler
