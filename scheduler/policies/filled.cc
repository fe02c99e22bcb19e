#include <limits>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/earliest_times.h>
#include <nestor/scheduler/improve.h>
#include <nestor/scheduler/policies/placement.h>
#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {
namespace {

/// Operators placed and timed, at 50 ns and 10 ns each.
constexpr std::int64_t kPlaceWork = 200'000;
constexpr std::int64_t kImproveWork = 2'000'000, kReplanImproveWork = 50'000;

}  // namespace

Schedule filled(const Workload& workload, const Dependencies& d, Schedule plain, Effort effort) {
  const bool full = effort == Effort::full;
  const std::int32_t D = plain.extra_warmup;
  const Caps caps = filled_caps(workload, d, backbone(d, workload, D));
  const bool nested_fits = within(caps, workload, d, plain.orders);
  Placement best{{{}, D}, std::numeric_limits<double>::infinity()};
  if (full || !nested_fits) {  // a step's own plan was already placed microbatch by microbatch
    best = search_placement(workload, d, {D}, caps, {.work = kPlaceWork});
  }
  if (nested_fits) {
    const double makespan = earliest_times(d, plain.orders).makespan;
    if (makespan <= best.makespan) best = {std::move(plain), makespan};
  } else if (!best.found()) {  // nested keeps to caps that are given, so none is broken here
    return plain;
  }
  improve(d, workload, caps, full ? kImproveWork : kReplanImproveWork, best.schedule.orders);
  return std::move(best.schedule);
}

}  // namespace nestor::scheduler::policies
