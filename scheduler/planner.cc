#include <algorithm>
#include <string>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/lowering.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/policies/policies.h>
#include <nestor/scheduler/simulator.h>

namespace nestor::scheduler {
namespace {

struct Policy {
  std::string_view name;
  policies::Schedule (*schedule)(const Workload&, const Dependencies&, std::optional<std::int32_t>);
  Workload (*resolve)(const Workload&);  ///< null: the workload as it is
};

constexpr Policy kPolicies[] = {
    {"coupled", policies::coupled, policies::coupled_workload},
    {"decoupled", policies::decoupled, nullptr},
    {"nested", policies::nested, nullptr},
    {"filled", policies::filled, nullptr},
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
  if (workload.llm.recompute)
    throw Error("llm.recompute", "recomputation is not planned by any policy", "set it to false");
  for (const PoolWorkload& pool : workload.pools) {
    if (pool.recompute)
      throw Error(pool.name + ".recompute", "recomputation is not planned by any policy", "set it to false");
  }
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

}  // namespace

Plan make_plan(const Workload& workload, const PlanRequest& request) {
  const Policy& policy = find_policy(request.policy);
  check(workload, request);
  Plan plan;
  plan.policy = request.policy;
  plan.workload = policy.resolve ? policy.resolve(workload) : workload;
  const Dependencies dependencies(plan.workload);
  const policies::Schedule schedule = policy.schedule(plan.workload, dependencies, request.extra_warmup);
  const Times times = earliest_times(dependencies, schedule.orders);
  if (!times.complete(schedule.orders))
    throw Error("policy", "'" + request.policy + "' deadlocks here", "this is a bug: please report the workload");
  const std::int32_t lanes = std::max(workload.lane_count(), dependencies.lanes());
  plan.table =
      lower(plan.workload, dependencies, schedule.orders, times, reductions_of(plan.workload, request.tied), lanes);
  plan.extra_warmup = schedule.extra_warmup;
  plan.custom_backbone = !has_standard_placement(plan.workload);
  plan.makespan = times.makespan;
  plan.in_flight = peak_in_flight(plan.workload, dependencies, schedule.orders, lanes);
  return plan;
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const Policy& policy : kPolicies) names.push_back(policy.name);
  return names;
}

}  // namespace nestor::scheduler
