#include <algorithm>
#include <limits>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/list_scheduler.h>
#include <nestor/scheduler/policies/placement.h>

namespace nestor::scheduler::policies {
namespace {

constexpr double kStuck = std::numeric_limits<double>::infinity();
/// A larger D is taken only for more than this.
constexpr double kWorthIt = 1.01;
/// Above this many operators a plan gets the best two rules alone: the rest differ by less than a percent there.
constexpr std::int32_t kLarge = 100'000;

/// The rules worth trying, best first on average (measured over random shapes and log-normal costs).
std::vector<ListRules> portfolio(const Workload& workload, const Dependencies& dependencies) {
  const std::int32_t P = workload.stages;
  std::vector<ListRules> rules{{.forward_first = true, .patience = 0.75, .lookahead = 0},
                               {.forward_first = false, .patience = 0.75, .lookahead = P}};
  if (dependencies.count() > kLarge) return rules;
  rules.push_back({.forward_first = false, .patience = 0, .lookahead = P});
  rules.push_back({.forward_first = true, .patience = 0, .lookahead = 0});
  if (has_generator_rows(workload)) {
    rules.push_back({.early = true, .forward_first = true, .patience = 0.75, .lookahead = 0});
    rules.push_back({.early = true, .forward_first = false, .patience = 0, .lookahead = P});
    rules.push_back({.rounds = false, .forward_first = true, .patience = 0});
  }
  return rules;
}

void keep_better(ListScheduler::Result&& result, Placement& best) {
  if (result.makespan >= best.makespan) return;
  best.makespan = result.makespan;
  best.schedule.orders = std::move(result.orders);
}

}  // namespace

Caps at_least_forced(Caps wanted, const Workload& workload, const Dependencies& d, const LaneOrders& llm) {
  const auto stage0 = llm.lane(workload.llm.lanes.front());
  for (std::size_t p = 0; p < workload.pools.size(); ++p) {
    const PoolWorkload& pool = workload.pools[p];
    wanted[p] = std::max(wanted[p], 1);
    if (pool.kind != PoolKind::encoder) continue;
    const ModuleId module{static_cast<std::int64_t>(p) + 1};
    std::vector<std::int32_t> held(pool.lanes.size(), 0);
    for (const OperatorId op : stage0) {
      const std::int32_t m = d.microbatch(op);
      if (!d.exists(d.backward(module, m))) continue;
      if (op == d.forward(kLlm, m, 0)) wanted[p] = std::max(wanted[p], ++held[pool.owner[m]]);
      if (op == d.backward(kLlm, m, 0)) --held[pool.owner[m]];
    }
  }
  return wanted;
}

bool within(const Caps& caps, const Workload& workload, const Dependencies& d, const LaneOrders& orders) {
  std::vector<std::vector<std::int32_t>> held;
  for (const PoolWorkload& pool : workload.pools) held.emplace_back(pool.lanes.size(), 0);
  for (const OperatorId op : orders.operators) {  // a member lives on one lane: lane by lane will do
    const ModuleId module = d.module(op);
    if (module == kLlm) continue;
    const std::size_t p = module.index() - 1;
    const std::int32_t m = d.microbatch(op);
    std::int32_t& count = held[p][workload.pools[p].owner[m]];
    if (d.is_backward(op)) {
      --count;
    } else if (d.exists(d.backward(module, m)) && ++count > caps[p]) {
      return false;
    }
  }
  return true;
}

Placement place(const Workload& workload, const Dependencies& d, std::int32_t extra_warmup, const Caps& caps) {
  Placement best{{{}, extra_warmup}, kStuck};
  const LaneOrders llm = backbone(d, workload, extra_warmup);
  ListScheduler scheduler(d, workload);
  for (const ListRules& rules : portfolio(workload, d)) keep_better(scheduler.run(llm, caps, rules), best);
  return best;
}

Placement place_with_search(const Workload& workload, const Dependencies& d,
                            const std::vector<std::int32_t>& candidates, const Caps& caps) {
  ListScheduler scheduler(d, workload);
  const ListRules probe = portfolio(workload, d).front();
  std::vector<double> makespans;
  for (const std::int32_t D : candidates) {
    makespans.push_back(scheduler.run(backbone(d, workload, D), caps, probe).makespan);
  }
  const double best = *std::min_element(makespans.begin(), makespans.end());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (makespans[i] < kStuck && makespans[i] <= best * kWorthIt) return place(workload, d, candidates[i], caps);
  }
  return {{{}, 0}, kStuck};
}

}  // namespace nestor::scheduler::policies
