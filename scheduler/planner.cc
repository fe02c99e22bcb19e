#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include <nestor/scheduler/arrange.h>
#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/lowering.h>
#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/policies/policies.h>
#include <nestor/scheduler/simulator.h>

namespace nestor::scheduler {
namespace {

/// A step's own plan that is longer than this many times `decoupled` gets a full search.
constexpr double kAboveDecoupled = 1.045;

struct Policy {
  std::string_view name;
  policies::Schedule (*schedule)(const Workload&, const Dependencies&, const policies::Options&);
  Workload (*resolve)(const Workload&);  ///< null: the workload as it is
  bool arranges;                         ///< chooses the order of the microbatches and their owners
  /// Makes a better schedule of the one that `schedule` made; null: that is it.
  policies::Schedule (*refine)(const Workload&, const Dependencies&, policies::Schedule, policies::Effort);
};

constexpr Policy kPolicies[] = {
    {"coupled", policies::coupled, policies::coupled_workload, false, nullptr},
    {"decoupled", policies::decoupled, nullptr, false, nullptr},
    {"nested", policies::nested, nullptr, true, nullptr},
    {"filled", policies::nested, nullptr, true, policies::filled},
};

const Policy& find_policy(const std::string& name) {
  std::string known;
  for (const Policy& policy : kPolicies) {
    if (policy.name == name) return policy;
    known += (known.empty() ? "" : ", ") + std::string(policy.name);
  }
  throw Error("policy", "'" + name + "' is unknown", "there are " + known);
}

void check(const Workload& workload, const PlanRequest& request) {
  validate(workload, "workload");
  const std::int64_t most = std::int64_t{workload.microbatches} * workload.chunks;
  if (request.extra_warmup && (*request.extra_warmup < 0 || *request.extra_warmup > most)) {
    throw Error("extra_warmup", std::to_string(*request.extra_warmup) + " is out of range",
                "0 to microbatches * chunks = " + std::to_string(most));
  }
  for (std::size_t i = 0; i < request.tied.size(); ++i) {
    const Reduction& tied = request.tied[i];
    const std::string at = "tied[" + std::to_string(i) + "]";
    if (!tied.module.valid() || tied.module.index() > workload.pools.size()) throw Error(at, "names no module", "");
    if (tied.lanes.size() < 2) throw Error(at, "needs at least two lanes", "one lane has nothing to reduce");
    for (std::size_t k = 0; k < tied.lanes.size(); ++k) {
      if (tied.lanes[k].value < 0 || tied.lanes[k].value >= workload.lane_count() ||
          (k > 0 && tied.lanes[k] <= tied.lanes[k - 1])) {
        throw Error(at, "needs lanes of the workload in ascending order", "");
      }
    }
  }
}

/// A workload with the order of its lanes.
struct Draft {
  Arrangement arrangement;
  Dependencies dependencies;
  policies::Schedule schedule;
  Times times;

  Draft(Arrangement chosen, const Policy& policy, const policies::Options& options)
      : arrangement(std::move(chosen)),
        dependencies(arrangement.workload),
        schedule(policy.schedule(arrangement.workload, dependencies, options)),
        times(earliest_times(dependencies, schedule.orders)) {}

  void refine(const Policy& policy, policies::Effort effort) {
    if (!policy.refine) return;
    schedule = policy.refine(arrangement.workload, dependencies, std::move(schedule), effort);
    times = earliest_times(dependencies, schedule.orders);
  }
};

/// Arrangements, the most promising under a few tries first.
std::vector<std::size_t> by_promise(const std::vector<Arrangement>& arrangements, const policies::Options& options) {
  if (arrangements.size() == 1) return {0};
  std::vector<double> makespans;
  for (const Arrangement& arrangement : arrangements) {
    const Dependencies dependencies(arrangement.workload);
    makespans.push_back(policies::probe(arrangement.workload, dependencies, options));
  }
  std::vector<std::size_t> order(arrangements.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return makespans[a] < makespans[b]; });
  return order;
}

/// What an arranged plan must not miss: a little over `decoupled`, and `coupled` on its own lanes, both of the step as
/// it was given.
double acceptable(const Workload& given) {
  const Dependencies dependencies(given);
  const auto makespan = [&](const policies::Schedule& schedule) {
    return earliest_times(dependencies, schedule.orders).makespan;
  };
  const double limit = kAboveDecoupled * makespan(policies::decoupled(given, dependencies, {}));
  if (!policies::is_coupled_placement(given)) return limit;
  return std::min(limit, makespan(policies::coupled(given, dependencies, {})));
}

/// The best arrangement's draft, under the searches that its step is worth.
Draft arranged(const Workload& given, const std::vector<Arrangement>& ways, const Policy& policy,
               policies::Options& options) {
  options.effort = policies::Effort::replan;
  const std::vector<std::size_t> order = by_promise(ways, options);
  Draft best(ways[order.front()], policy, options);
  const double limit = acceptable(given);
  if (best.times.makespan <= limit) return best;
  options.effort = policies::Effort::full;
  const auto attempt = [&](const Arrangement& way) {
    if (best.times.makespan <= limit) return;
    Draft other(way, policy, options);
    if (other.times.makespan < best.times.makespan) best = std::move(other);
  };
  for (const std::size_t i : order) attempt(ways[i]);
  attempt({given, {}});  // its owners are not those of the arrangements
  return best;
}

Draft draft(const Workload& workload, const Policy& policy, std::optional<std::int32_t> extra_warmup) {
  if (!policy.arranges) return {{policy.resolve ? policy.resolve(workload) : workload, {}}, policy, {extra_warmup}};
  std::vector<Arrangement> ways = arrangements(workload);
  policies::Options options{extra_warmup};
  Draft made =
      ways.size() == 1 ? Draft(std::move(ways.front()), policy, options) : arranged(workload, ways, policy, options);
  made.refine(policy, options.effort);
  return made;
}

}  // namespace

Plan make_plan(const Workload& workload, const PlanRequest& request) {
  const Policy& policy = find_policy(request.policy);
  check(workload, request);
  if (request.keep_memory_cap && workload.memory_bytes_per_lane > 0) return plan_within_memory(workload, request);
  Draft made = draft(workload, policy, request.extra_warmup);
  const Dependencies& dependencies = made.dependencies;
  const LaneOrders& orders = made.schedule.orders;
  if (!made.times.complete(orders))
    throw Error("policy", "'" + request.policy + "' deadlocks here", "this is a bug: please report the workload");
  Plan plan;
  plan.policy = request.policy;
  plan.workload = std::move(made.arrangement.workload);
  plan.microbatch_order = std::move(made.arrangement.order);
  const std::int32_t lanes = std::max(workload.lane_count(), dependencies.lanes());
  plan.table =
      lower(plan.workload, dependencies, orders, made.times, reductions_of(plan.workload, request.tied), lanes);
  plan.extra_warmup = made.schedule.extra_warmup;
  plan.custom_backbone = !has_standard_placement(plan.workload);
  plan.makespan = made.times.makespan;
  plan.in_flight = peak_in_flight(plan.workload, dependencies, orders, lanes);
  return plan;
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const Policy& policy : kPolicies) names.push_back(policy.name);
  return names;
}

}  // namespace nestor::scheduler
