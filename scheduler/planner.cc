#include <algorithm>
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

struct Policy {
  std::string_view name;
  policies::Schedule (*schedule)(const Workload&, const Dependencies&, const policies::Options&);
  Workload (*resolve)(const Workload&);  ///< null: the workload as it is
  bool arranges;                         ///< chooses the order of the microbatches and their owners
};

constexpr Policy kPolicies[] = {
    {"coupled", policies::coupled, policies::coupled_workload, false},
    {"decoupled", policies::decoupled, nullptr, false},
    {"nested", policies::nested, nullptr, true},
    {"filled", policies::filled, nullptr, true},
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
};

/// The arrangement that looks best under a few tries; the first of equal ones.
std::size_t most_promising(const std::vector<Arrangement>& arrangements, const policies::Options& options) {
  std::size_t best = 0;
  double shortest = 0;
  for (std::size_t i = 0; i < arrangements.size(); ++i) {
    const Dependencies dependencies(arrangements[i].workload);
    const double makespan = policies::probe(arrangements[i].workload, dependencies, options);
    if (i == 0 || makespan < shortest) {
      best = i;
      shortest = makespan;
    }
  }
  return best;
}

Draft draft(const Workload& workload, const Policy& policy, std::optional<std::int32_t> extra_warmup) {
  if (!policy.arranges) return {{policy.resolve ? policy.resolve(workload) : workload, {}}, policy, {extra_warmup}};
  std::vector<Arrangement> ways = arrangements(workload);
  if (ways.size() == 1) return {std::move(ways[0]), policy, {extra_warmup}};

  const policies::Options options{extra_warmup, policies::Effort::replan};
  const std::size_t best = most_promising(ways, options);
  Draft chosen(std::move(ways[best]), policy, options);
  if (best > 0 && policies::is_coupled_placement(workload)) {  // never above `coupled` there, which takes what is given
    Draft given(std::move(ways[0]), policy, options);
    if (given.times.makespan <= chosen.times.makespan) return given;
  }
  return chosen;
}

}  // namespace

Plan make_plan(const Workload& workload, const PlanRequest& request) {
  const Policy& policy = find_policy(request.policy);
  check(workload, request);
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
