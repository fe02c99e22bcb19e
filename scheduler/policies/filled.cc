#include <limits>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/earliest_times.h>
#include <nestor/scheduler/improve.h>
#include <nestor/scheduler/policies/placement.h>
#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {
namespace {

constexpr std::int32_t kEncoderCap = 4;
constexpr std::int32_t kGeneratorCap = 2;
/// Operators timed by the local search: about a millisecond.
constexpr std::int64_t kImproveWork = 200'000;

Caps filled_caps(const Workload& workload) {
  Caps caps;
  for (const PoolWorkload& pool : workload.pools) {
    caps.push_back(pool.in_flight_cap.value_or(pool.kind == PoolKind::encoder ? kEncoderCap : kGeneratorCap));
  }
  return caps;
}

}  // namespace

Schedule filled(const Workload& workload, const Dependencies& d, std::optional<std::int32_t> extra_warmup) {
  Schedule plain = nested(workload, d, extra_warmup);
  const Caps caps = at_least_forced(filled_caps(workload), workload, d, backbone(d, workload, plain.extra_warmup));
  Placement best = place(workload, d, plain.extra_warmup, caps);
  if (within(caps, workload, d, plain.orders)) {
    const double makespan = earliest_times(d, plain.orders).makespan;
    if (makespan <= best.makespan) best = {std::move(plain), makespan};
  }
  if (best.makespan == std::numeric_limits<double>::infinity()) {
    throw Error("in_flight_cap", "no order within the caps was found", "raise it, or plan `nested`");
  }
  improve(d, workload, caps, kImproveWork, best.schedule.orders);
  return std::move(best.schedule);
}

}  // namespace nestor::scheduler::policies
