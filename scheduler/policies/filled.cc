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

Schedule filled(const Workload& workload, const Dependencies& d, const Options& options) {
  const bool full = options.effort == Effort::full;
  Schedule plain = nested(workload, d, options);
  const std::int32_t D = plain.extra_warmup;
  const Caps caps = filled_caps(workload, d, backbone(d, workload, D));
  Placement best{{{}, D}, std::numeric_limits<double>::infinity()};
  const bool nested_fits = within(caps, workload, d, plain.orders);
  if (nested_fits) {
    best.makespan = earliest_times(d, plain.orders).makespan;
    best.schedule = std::move(plain);
  }
  if (full || !nested_fits) {  // a step's own plan was already placed microbatch by microbatch
    best.keep_better(search_placement(workload, d, {D}, caps, {.work = kPlaceWork}));
  }
  if (!best.found()) {
    throw Error("in_flight_cap", "no order within the caps was found", "raise it, or plan `nested`");
  }
  improve(d, workload, caps, full ? kImproveWork : kReplanImproveWork, best.schedule.orders);
  return std::move(best.schedule);
}

}  // namespace nestor::scheduler::policies
