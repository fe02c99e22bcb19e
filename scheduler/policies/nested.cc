#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/earliest_times.h>
#include <nestor/scheduler/policies/placement.h>
#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {
namespace {

/// Two makespans closer than this, relatively, are equal: costs such as 0.1 and 0.3 are multiples of each other only
/// within rounding.
constexpr double kSameTime = 1e-9;
/// A plan of more operators than this is made with few tries.
constexpr std::int32_t kLarge = 100'000;
/// A larger D is taken only for more than this: unbounded D buys half a percent with activations that grow with M.
constexpr double kWorthIt = 1.01;

/// A place in the backbone's run: before the first operator of a lane that starts at `time` or later and, among those
/// at `time` itself, comes after `rank` in topological order (zero-cost operators make the latter matter).
struct Position {
  double time = -1;
  std::int64_t rank = -1;
  friend auto operator<=>(const Position&, const Position&) = default;
};

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class CutKind : std::uint8_t { encoder_backward, encoder_forward, generator };  // at one instant, in this order

/// An instant at which every lane's clock stops while a round of a pool's work passes.
struct Cut {
  Position at;
  Position floor;  ///< behind the operator that the round needs; `at` is never moved to or before it
  CutKind kind;
  ModuleId pool;
  std::int32_t first, last;  ///< microbatches of the round
};

/// The microbatches [first, last) of a round.
struct Round {
  std::int32_t first, last;
};

/// Rounds of as many microbatches as the pool has members. Where some lack the modality and members have been given
/// the present ones in turn (arrange.h), the rounds are counted in present ones and are full.
std::vector<Round> rounds_of(const PoolWorkload& pool) {
  const auto size = static_cast<std::int32_t>(pool.lanes.size());
  const auto microbatches = static_cast<std::int32_t>(pool.absent.size());
  std::vector<Round> rounds;
  std::vector<std::int32_t> last_round(size, -1);
  std::int32_t present = 0, first = 0;
  bool in_turn = true;  // does each member have at most one of every round?
  for (std::int32_t m = 0; m < microbatches && in_turn; ++m) {
    if (!pool.absent[m]) {
      in_turn = std::exchange(last_round[pool.owner[m]], present / size) != present / size;
      ++present;
    }
    const bool full = !pool.absent[m] && present % size == 0;
    if (full || m + 1 == microbatches) rounds.push_back({std::exchange(first, m + 1), m + 1});
  }
  if (in_turn) return rounds;
  rounds.clear();
  for (std::int64_t m = 0; m < microbatches; m += size) {
    rounds.push_back(
        {static_cast<std::int32_t>(m), static_cast<std::int32_t>(std::min<std::int64_t>(m + size, microbatches))});
  }
  return rounds;
}

class Nester {
 public:
  Nester(const Workload& workload, const Dependencies& dependencies) : w_(workload), d_(dependencies) {
    for (const PoolWorkload& pool : w_.pools) rounds_.push_back(rounds_of(pool));
    gate_ = generator_gate();
  }

  bool generates() const {
    return std::any_of(gate_.begin(), gate_.end(), [](std::int32_t m) { return m >= 0; });
  }

  /// The largest D that is tried: enough for the largest round of a generator to pass the last stage.
  std::int32_t largest_extra_warmup() const {
    std::int64_t generators = 1;
    for (const PoolWorkload& pool : w_.pools) {
      if (pool.kind == PoolKind::generator) generators = std::max(generators, std::int64_t(pool.lanes.size()));
    }
    const std::int64_t P = w_.stages, V = w_.chunks;
    const std::int64_t rounds = 2 * P + ((generators + P - 1) / P - 1) * P * V;
    return static_cast<std::int32_t>(std::min(rounds, std::int64_t{w_.microbatches} * V));
  }

  /// Lane orders at a given D; empty where the rounds and this little warm-up deadlock.
  std::optional<LaneOrders> order(std::int32_t extra_warmup) const {
    const LaneOrders llm = backbone(d_, w_, extra_warmup);
    const Times clock = earliest_times(d_, llm, {.llm_only = true, .gate = gate_});
    if (!clock.complete(llm)) return std::nullopt;
    return stop_clock(llm, clock, cuts(clock));
  }

 private:
  /// For each microbatch the last one of its rounds in any generator: GB of none can start before that one's forward
  /// has passed the last stage, so the backbone's backward waits for it as well.
  std::vector<std::int32_t> generator_gate() const {
    std::vector<std::int32_t> gate(w_.microbatches, -1);
    for (std::size_t p = 0; p < w_.pools.size(); ++p) {
      const PoolWorkload& pool = w_.pools[p];
      if (pool.kind != PoolKind::generator) continue;
      for (const Round& round : rounds_[p]) {
        std::int32_t last = round.last - 1;
        while (last >= round.first && pool.absent[last]) --last;
        for (std::int32_t m = round.first; m <= last; ++m) {
          if (!pool.absent[m]) gate[m] = std::max(gate[m], last);
        }
      }
    }
    return gate;
  }

  Position before(OperatorId op, const Times& clock) const { return {clock.start[op.index()], -1}; }
  Position itself(OperatorId op, const Times& clock) const { return {clock.start[op.index()], clock.rank[op.index()]}; }
  Position after(OperatorId op, const Times& clock) const {
    return std::max(Position{clock.end[op.index()], -1}, itself(op, clock));
  }

  /// One cut for each round and kind, looking only at microbatches that have the rows.
  void add_cut(std::vector<Cut>& cuts, CutKind kind, ModuleId module, const Round& round, const Times& clock) const {
    const std::int32_t last_stage = d_.stages() - 1;
    Cut cut{{}, {}, kind, module, round.first, round.last};
    bool any = false;
    for (std::int32_t m = round.first; m < round.last; ++m) {
      const OperatorId own = kind == CutKind::encoder_backward ? d_.backward(module, m) : d_.forward(module, m);
      if (!d_.exists(own)) continue;
      switch (kind) {
        case CutKind::encoder_forward:
          cut.at =
              any ? std::min(cut.at, before(d_.forward(kLlm, m, 0), clock)) : before(d_.forward(kLlm, m, 0), clock);
          break;
        case CutKind::encoder_backward:
          cut.at = std::max(cut.at, after(d_.backward(kLlm, m, 0), clock));
          cut.floor = std::max(cut.floor, itself(d_.backward(kLlm, m, 0), clock));
          break;
        case CutKind::generator:
          cut.at = std::max(cut.at, after(d_.forward(kLlm, m, last_stage), clock));
          cut.floor = std::max(cut.floor, itself(d_.forward(kLlm, m, last_stage), clock));
          break;
      }
      any = true;
    }
    if (any) cuts.push_back(cut);
  }

  std::vector<Cut> cuts(const Times& clock) const {
    std::vector<Cut> cuts;
    for (std::int32_t i = 1; i < d_.modules(); ++i) {
      const PoolWorkload& pool = w_.pool(ModuleId{i});
      for (const Round& round : rounds_[i - 1]) {
        if (pool.kind == PoolKind::encoder) {
          add_cut(cuts, CutKind::encoder_forward, ModuleId{i}, round, clock);
          add_cut(cuts, CutKind::encoder_backward, ModuleId{i}, round, clock);
        } else {
          add_cut(cuts, CutKind::generator, ModuleId{i}, round, clock);
        }
      }
    }
    order_cuts(cuts, tolerance(clock));
    return cuts;
  }

  /// Instants this close are one instant. Far below any operator's cost.
  double tolerance(const Times& clock) const {
    double shortest = std::numeric_limits<double>::infinity();
    for (const auto* costs : {&w_.llm.forward, &w_.llm.backward}) {
      for (const double cost : *costs) {
        if (cost > 0) shortest = std::min(shortest, cost);
      }
    }
    return std::min(kSameTime * clock.makespan, 1e-3 * shortest);
  }

  /// Sorts cuts by instant, moves each to the start of the tolerance around it, and puts those of one instant in the
  /// order of their kinds. No cut is moved past the operator that its round needs, so every round still comes after
  /// what it needs and before what needs it in the order of the backbone's run: no deadlock.
  static void order_cuts(std::vector<Cut>& cuts, double tolerance) {
    for (Cut& cut : cuts) cut.at = std::max({Position{cut.at.time - tolerance, -1}, cut.floor});
    std::sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
      return std::tie(a.at, a.kind, a.pool, a.first) < std::tie(b.at, b.kind, b.pool, b.first);
    });
    for (std::size_t begin = 0; begin < cuts.size();) {
      std::size_t end = begin + 1;
      while (end < cuts.size() && cuts[end].at.time - cuts[begin].at.time <= tolerance &&
             cuts[end].floor <= cuts[begin].at) {
        ++end;
      }
      for (std::size_t i = begin; i < end; ++i) cuts[i].at = cuts[begin].at;
      std::sort(cuts.begin() + begin, cuts.begin() + end, [](const Cut& a, const Cut& b) {
        return std::tie(a.kind, a.pool, a.first) < std::tie(b.kind, b.pool, b.first);
      });
      begin = end;
    }
  }

  /// The backbone's lanes with the rounds at their cuts.
  LaneOrders stop_clock(const LaneOrders& llm, const Times& clock, const std::vector<Cut>& cuts) const {
    OrderBuilder order(d_, false);
    std::vector<std::uint32_t> next(llm.lane_begin.begin(), llm.lane_begin.end() - 1);
    auto run_lane_until = [&](std::int32_t lane, const Position& cut) {
      while (next[lane] < llm.lane_begin[lane + 1]) {
        const OperatorId op = llm.operators[next[lane]];
        if (itself(op, clock) > cut) break;
        order.append(op);
        ++next[lane];
      }
    };
    auto pass = [&](OperatorId op, const Cut& cut) {
      if (!d_.exists(op)) return;
      run_lane_until(d_.lane(op).value, cut.at);
      order.append(op);
    };
    for (const Cut& cut : cuts) {
      for (std::int32_t m = cut.first; m < cut.last; ++m) {
        if (cut.kind != CutKind::encoder_backward) pass(d_.forward(cut.pool, m), cut);
        if (cut.kind != CutKind::encoder_forward) pass(d_.backward(cut.pool, m), cut);
      }
    }
    for (std::int32_t lane = 0; lane < llm.lanes(); ++lane) {
      run_lane_until(lane, {std::numeric_limits<double>::infinity(), 0});
    }
    return order.take();
  }

  const Workload& w_;
  const Dependencies& d_;
  std::vector<std::vector<Round>> rounds_;  ///< by pool
  std::vector<std::int32_t> gate_;
};

double decoupled_makespan(const Workload& workload, const Dependencies& d) {
  return earliest_times(d, decoupled(workload, d, {}).orders).makespan;
}

/// Operators placed and timed in the search behind the stopped clock.
constexpr std::int64_t kFullWork = 600'000;
constexpr std::int64_t kImproveWork = 8'000'000;
/// Tries where a plan is made for one step alone: of D where there is a generator, of rules.
constexpr std::int32_t kReplanTries = 10, kReplanTriesWithGenerator = 36;

/// The best of the stopped clock over `warmups` (ascending) within the caps: the smallest that reaches `target`, or
/// within 1% of the best.
Placement stop_clock(const Nester& nester, const Workload& workload, const Dependencies& d,
                     const std::vector<std::int32_t>& warmups, const Caps& caps, double target) {
  std::vector<double> makespans;
  Placement best{{{}, 0}, kNever};
  for (const std::int32_t D : warmups) {
    auto orders = nester.order(D);
    const bool fits = orders && within(caps, workload, d, *orders);
    makespans.push_back(fits ? earliest_times(d, *orders).makespan : kNever);
    if (fits) best.keep_better({{std::move(*orders), D}, makespans.back()});
    if (best.makespan <= target) return best;
  }
  for (std::size_t i = 0; i < warmups.size() && warmups[i] < best.schedule.extra_warmup; ++i) {
    if (makespans[i] <= best.makespan * kWorthIt) return {{*nester.order(warmups[i]), warmups[i]}, makespans[i]};
  }
  return best;
}

/// Every D that a round of the largest generator pool may need to pass the last stage.
std::vector<std::int32_t> all_warmups(const Nester& nester) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(nester.generates() ? nester.largest_extra_warmup() : 0) +
                                   1);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

/// Every D up to 2P, then in steps, up to four rounds of all chunks and a little more: what a pool far from the LLM may
/// need.
std::vector<std::int32_t> many_warmups(const Workload& workload) {
  if (!has_generator_rows(workload)) return {0};
  const std::int64_t P = workload.stages, V = workload.chunks, most = std::int64_t{workload.microbatches} * V;
  std::vector<std::int32_t> result;
  for (std::int64_t D = 0; D <= std::min(4 * P * V + 8, most); D += D < 2 * P ? 1 : std::max<std::int64_t>(1, P / 2)) {
    result.push_back(static_cast<std::int32_t>(D));
  }
  return result;
}

/// The few of at most 2P that suit a generator with one member per lane, whatever the costs.
std::vector<std::int32_t> few_warmups(const Workload& workload) {
  if (!has_generator_rows(workload)) return {0};
  const std::int64_t P = workload.stages, most = std::int64_t{workload.microbatches} * workload.chunks;
  std::vector<std::int32_t> result;
  for (const std::int64_t D : {P - 1, P, P + P / 2, 2 * P - 1, 2 * P}) {
    if (D <= most && (result.empty() || D > result.back())) result.push_back(static_cast<std::int32_t>(D));
  }
  if (result.empty()) result.push_back(static_cast<std::int32_t>(most));
  return result;
}

/// Where nothing was found within the caps: given ones are an error, the default ones grow until something fits (owners
/// may be given so unevenly that one member must hold more).
Placement beyond_caps(const Nester& nester, const Workload& workload, const Dependencies& d, Caps caps,
                      std::vector<std::int32_t> warmups) {
  for (const PoolWorkload& pool : workload.pools) {
    if (pool.in_flight_cap) {
      throw Error(pool.name + ".in_flight_cap", "no order of the LLM's rows within the caps was found", "raise it");
    }
  }
  for (std::int64_t times = 2; times < workload.microbatches; times *= 2) {
    for (std::int32_t& cap : caps) cap *= 2;
    Placement placement = search_placement(workload, d, warmups, caps, {.work = kFullWork});
    if (placement.found()) return placement;
  }
  const std::int32_t everything = workload.microbatches * workload.chunks;  // all forwards first: never a deadlock
  auto orders = nester.order(everything).value();
  const double makespan = earliest_times(d, orders).makespan;
  return {{std::move(orders), everything}, makespan};
}

}  // namespace

bool is_coupled_placement(const Workload& workload) {
  const Workload other = coupled_workload(workload);
  for (std::size_t p = 0; p < workload.pools.size(); ++p) {
    if (workload.pools[p].lanes != other.pools[p].lanes) return false;
  }
  return true;
}

double probe(const Workload& workload, const Dependencies& d, const Options& options) {
  const bool generates = has_generator_rows(workload);
  const std::vector<std::int32_t> warmups{options.extra_warmup.value_or(few_warmups(workload).front())};
  return search_placement(workload, d, warmups, nested_caps(workload), {.least = generates ? 2 : 1}).makespan;
}

Schedule nested(const Workload& workload, const Dependencies& d, const Options& options) {
  const Nester nester(workload, d);
  const Caps caps = nested_caps(workload);
  const bool full = options.effort == Effort::full;
  std::vector<std::int32_t> warmups = full ? all_warmups(nester) : few_warmups(workload);
  if (options.extra_warmup) {
    warmups = {*options.extra_warmup};
    if (!nester.order(*options.extra_warmup)) {
      throw Error(
          "extra_warmup",
          std::to_string(*options.extra_warmup) + " forwards more let no round of the generator pass the last stage",
          "leave it to the search");
    }
  }
  const double target = full ? decoupled_makespan(workload, d) * (1 + kSameTime) : 0;
  Placement best = stop_clock(nester, workload, d, warmups, caps, target);
  if (full && best.makespan <= target) return std::move(best.schedule);

  // Rounds that stop every lane lose where pools are small, skewed or far away, and where costs differ: cut each
  // microbatch by itself there.
  if (!full) {
    const std::int32_t tries = has_generator_rows(workload) ? kReplanTriesWithGenerator : kReplanTries;
    best.keep_better(search_placement(workload, d, warmups, caps, {.least = d.count() > kLarge ? 2 : tries}));
  }
  if (full || !best.found()) {
    if (!options.extra_warmup) warmups = many_warmups(workload);
    const SearchLimits limits{.target = target, .work = kFullWork, .improve_work = full ? kImproveWork : 0};
    best.keep_better(search_placement(workload, d, warmups, caps, limits));
  }
  if (is_coupled_placement(workload)) {
    Schedule other = coupled(workload, d, {});
    const double makespan = earliest_times(d, other.orders).makespan;
    if (within(caps, workload, d, other.orders)) best.keep_better({std::move(other), makespan});
  }
  if (!best.found()) best = beyond_caps(nester, workload, d, caps, warmups);
  return std::move(best.schedule);
}

}  // namespace nestor::scheduler::policies
