#include <algorithm>
#include <limits>
#include <numeric>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/improve.h>
#include <nestor/scheduler/list_scheduler.h>
#include <nestor/scheduler/policies/placement.h>

namespace nestor::scheduler::policies {
namespace {

constexpr double kStuck = std::numeric_limits<double>::infinity();
/// A larger D is taken only for more than this ...
constexpr double kWorthIt = 1.01;
/// ... unless the smaller one leaves this much to the target.
constexpr double kCloseToTarget = 1.02;

constexpr std::size_t kImproved = 8;  ///< warm-ups whose placements go into the local search

constexpr std::int32_t kRoundsInFlight = 4;  ///< of `nested`, in pipeline depths
constexpr std::int32_t kEncoderCap = 4;      ///< of `filled`
constexpr std::int32_t kGeneratorCap = 2;

/// The rules worth trying. Each adds most to the ones before it: chosen greedily from the whole grid of rules over even
/// shapes, skewed shapes and log-normal costs.
std::vector<ListRules> portfolio(const Workload& workload) {
  const std::int32_t P = workload.stages;
  if (!has_generator_rows(workload)) {
    return {
        {.forward_first = true, .patience = 0.4, .lookahead = 2},
        {.forward_first = true, .patience = 0, .lookahead = 2},
        {.forward_first = true, .patience = 0.75, .lookahead = 0},
        {.forward_first = true, .patience = 0.4, .lookahead = P},
        {.forward_first = false, .patience = 0.4, .lookahead = 2},
        {.forward_first = true, .patience = 0.75, .lookahead = P},
        {.forward_first = true, .patience = 0, .lookahead = 0},
        {.forward_first = false, .patience = 0.75, .lookahead = P},
        {.forward_first = true, .patience = 0.4, .lookahead = 0},
        {.forward_first = true, .patience = 1, .lookahead = P},
        {.forward_first = true, .patience = 0.75, .lookahead = 2, .relief = 0},
        {.forward_first = false, .patience = 0, .lookahead = 2},
        {.forward_first = false, .patience = 1, .lookahead = 0},
        {.forward_first = false, .patience = 0.4, .lookahead = P},
    };
  }
  return {
      {.forward_first = true, .patience = 0.75, .lookahead = 0},
      {.rounds = false, .forward_first = true, .patience = 0, .lookahead = 2, .relief = 0},
      {.forward_first = true, .patience = 0.4, .lookahead = 0},
      {.forward_first = false, .patience = 0.75, .lookahead = 2},
      {.early = true, .forward_first = true, .patience = 0, .lookahead = 0, .relief = 0},
      {.rounds = false, .forward_first = true, .patience = 0.75, .lookahead = 0},
      {.early = true, .forward_first = false, .patience = 0.75, .lookahead = P},
      {.forward_first = true, .patience = 0.75, .lookahead = 2},
      {.forward_first = true, .patience = 0.4, .lookahead = 2},
      {.early = true, .forward_first = true, .patience = 0.4, .lookahead = P},
      {.rounds = false, .forward_first = false, .patience = 0.4, .lookahead = 2, .relief = 0},
      {.rounds = false, .forward_first = true, .patience = 0.4, .lookahead = 2},
      {.forward_first = true, .patience = 1, .lookahead = 0},
      {.early = true, .forward_first = true, .patience = 0.75, .lookahead = 0},
      {.forward_first = true, .patience = 0.75, .lookahead = P},
      {.early = true, .forward_first = true, .patience = 0, .lookahead = 0},
      {.forward_first = false, .patience = 0.4, .lookahead = 0},
      {.rounds = false, .forward_first = false, .patience = 0.75, .lookahead = 0},
      {.early = true, .forward_first = true, .patience = 0.4, .lookahead = 0},
      {.forward_first = false, .patience = 0, .lookahead = 0},
      {.forward_first = false, .patience = 1, .lookahead = P},
      {.rounds = false, .forward_first = true, .patience = 0.4, .lookahead = 0},
      {.early = true, .forward_first = false, .patience = 0, .lookahead = 2},
  };
}

/// The tries of one search, best order of each warm-up kept.
class Search {
 public:
  Search(const Workload& workload, const Dependencies& d, const std::vector<std::int32_t>& warmups, const Caps& caps,
         const SearchLimits& limits)
      : workload_(workload),
        d_(d),
        caps_(caps),
        target_(limits.target),
        improve_work_(limits.improve_work),
        scheduler_(d, workload),
        rules_(portfolio(workload)) {
    tries_left_ = std::max<std::int64_t>(limits.least, limits.work / std::max(d.count(), 1));
    // Where few tries are left for the rules, warm-ups are thinned out evenly; the first stays.
    const std::size_t most = std::max<std::size_t>(1, static_cast<std::size_t>(tries_left_) / 2);
    const std::size_t step = (warmups.size() + most - 1) / most;
    for (std::size_t i = 0; i < warmups.size(); i += step) {
      candidates_.push_back({{{{}, warmups[i]}, kStuck}, backbone(d, workload, warmups[i])});
    }
  }

  Placement run() {
    if (!each_candidate(0)) {
      // A rule that frees a stuck warm-up is worth one more look at all of them.
      if (candidates_[by_makespan().front()].best.makespan == kStuck) each_candidate(1);
      try_rules();
    }
    if (improve_work_ > 0) improve_best();
    return choose();
  }

 private:
  struct Candidate {
    Placement best;
    LaneOrders llm;
  };

  /// One try. True where the search may stop: the target is reached or no try is left.
  bool attempt(Candidate& candidate, std::size_t rule) {
    if (tries_left_-- <= 0) return true;
    ListScheduler::Result result = scheduler_.run(candidate.llm, caps_, rules_[rule]);
    const std::int32_t warmup = candidate.best.schedule.extra_warmup;
    candidate.best.keep_better({{std::move(result.orders), warmup}, result.makespan});
    return candidate.best.makespan <= target_;
  }

  bool each_candidate(std::size_t rule) {
    for (Candidate& candidate : candidates_) {
      if (attempt(candidate, rule)) return true;
    }
    return false;
  }

  std::vector<std::size_t> by_makespan() const {
    std::vector<std::size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return candidates_[a].best.makespan < candidates_[b].best.makespan;
    });
    return order;
  }

  void try_rules() {
    for (const std::size_t i : by_makespan()) {
      for (std::size_t rule = 1; rule < rules_.size(); ++rule) {
        if (attempt(candidates_[i], rule)) return;
      }
    }
  }

  /// A local search from each of the best few, then a longer one from where those got best.
  void improve_best() {
    const auto run = [&](std::size_t i, std::int64_t work) {
      Placement& placement = candidates_[i].best;
      if (placement.found()) placement.makespan = improve(d_, workload_, caps_, work, placement.schedule.orders);
    };
    std::vector<std::size_t> order = by_makespan();
    if (candidates_[order.front()].best.makespan <= target_) return;
    order.resize(std::min(order.size(), kImproved));
    for (const std::size_t i : order) run(i, improve_work_ / static_cast<std::int64_t>(2 * order.size()));
    run(by_makespan().front(), improve_work_ / 2);
  }

  Placement choose() {
    double best = kStuck;
    for (const Candidate& candidate : candidates_) best = std::min(best, candidate.best.makespan);
    const double enough = std::max({best, target_, std::min(best * kWorthIt, target_ * kCloseToTarget)});
    for (Candidate& candidate : candidates_) {
      if (candidate.best.makespan <= enough) return std::move(candidate.best);
    }
    return {{{}, 0}, kStuck};
  }

  const Workload& workload_;
  const Dependencies& d_;
  const Caps& caps_;
  const double target_;
  const std::int64_t improve_work_;
  ListScheduler scheduler_;
  const std::vector<ListRules> rules_;
  std::vector<Candidate> candidates_;
  std::int64_t tries_left_;
};

}  // namespace

bool Placement::found() const {
  return makespan < kStuck;
}

Caps nested_caps(const Workload& workload) {
  Caps caps;
  for (const PoolWorkload& pool : workload.pools) {
    const auto size = static_cast<std::int32_t>(pool.lanes.size());
    caps.push_back(pool.in_flight_cap.value_or(kRoundsInFlight * ((workload.stages + size - 1) / size)));
  }
  return caps;
}

Caps filled_caps(const Workload& workload, const Dependencies& d, const LaneOrders& llm) {
  Caps caps;
  const auto stage0 = llm.lane(workload.llm.lanes.front());
  for (std::size_t p = 0; p < workload.pools.size(); ++p) {
    const PoolWorkload& pool = workload.pools[p];
    const ModuleId module{static_cast<std::int64_t>(p) + 1};
    std::int32_t cap = pool.kind == PoolKind::encoder ? kEncoderCap : kGeneratorCap;
    std::vector<std::int32_t> held(pool.lanes.size(), 0);
    for (const OperatorId op : stage0) {
      if (pool.kind != PoolKind::encoder) break;
      const std::int32_t m = d.microbatch(op);
      if (!d.exists(d.backward(module, m))) continue;
      if (op == d.forward(kLlm, m, 0)) cap = std::max(cap, ++held[pool.owner[m]]);
      if (op == d.backward(kLlm, m, 0)) --held[pool.owner[m]];
    }
    caps.push_back(pool.in_flight_cap.value_or(cap));
  }
  return caps;
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

Placement search_placement(const Workload& workload, const Dependencies& d, const std::vector<std::int32_t>& warmups,
                           const Caps& caps, const SearchLimits& limits) {
  return Search(workload, d, warmups, caps, limits).run();
}

}  // namespace nestor::scheduler::policies
