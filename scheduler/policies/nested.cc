#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/earliest_times.h>
#include <nestor/scheduler/policies/placement.h>
#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {
namespace {

/// Two makespans closer than this, relatively, are equal: costs such as 0.1 and 0.3 are multiples of each other only
/// within rounding.
constexpr double kSameTime = 1e-9;
/// A larger D is taken only for more than this: unbounded D buys half a percent with activations that grow with M.
constexpr double kWorthIt = 1.01;

/// A place in the backbone's run: before the first operator of a lane that starts at `time` or later and, among those
/// at `time` itself, comes after `rank` in topological order (zero-cost operators make the latter matter).
struct Position {
  double time = -1;
  std::int64_t rank = -1;
  friend auto operator<=>(const Position&, const Position&) = default;
};

/// Activations a member may hold where microbatches are cut one by one, in pipeline depths.
constexpr std::int32_t kRoundsInFlight = 4;
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

/// The microbatches of one pool's round number `round`: as many as the pool has members.
std::pair<std::int32_t, std::int32_t> round_of(const PoolWorkload& pool, std::int32_t m, std::int32_t microbatches) {
  const auto size = static_cast<std::int32_t>(pool.lanes.size());
  const std::int32_t first = m / size * size;
  return {first, std::min<std::int64_t>(std::int64_t{first} + size, microbatches)};
}

class Nester {
 public:
  Nester(const Workload& workload, const Dependencies& dependencies)
      : w_(workload), d_(dependencies), gate_(generator_gate()) {}

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
    for (const PoolWorkload& pool : w_.pools) {
      if (pool.kind != PoolKind::generator) continue;
      for (std::int32_t first = 0; first < w_.microbatches;) {
        const std::int32_t end = round_of(pool, first, w_.microbatches).second;
        std::int32_t last = end - 1;
        while (last >= first && pool.absent[last]) --last;
        for (std::int32_t m = first; m <= last; ++m) {
          if (!pool.absent[m]) gate[m] = std::max(gate[m], last);
        }
        first = end;
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
  void add_cut(std::vector<Cut>& cuts, CutKind kind, ModuleId module, std::int32_t first, std::int32_t last,
               const Times& clock) const {
    const std::int32_t last_stage = d_.stages() - 1;
    Cut cut{{}, {}, kind, module, first, last};
    bool any = false;
    for (std::int32_t m = first; m < last; ++m) {
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
      for (std::int32_t first = 0; first < w_.microbatches;) {
        const std::int32_t end = round_of(pool, first, w_.microbatches).second;
        if (pool.kind == PoolKind::encoder) {
          add_cut(cuts, CutKind::encoder_forward, ModuleId{i}, first, end, clock);
          add_cut(cuts, CutKind::encoder_backward, ModuleId{i}, first, end, clock);
        } else {
          add_cut(cuts, CutKind::generator, ModuleId{i}, first, end, clock);
        }
        first = end;
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
  std::vector<std::int32_t> gate_;
};

double decoupled_makespan(const Workload& workload, const Dependencies& d) {
  return earliest_times(d, decoupled(workload, d, std::nullopt).orders).makespan;
}

/// The best of the stopped clock over D: the smallest that reaches `target`, or within 1% of the best.
Schedule stop_clock(const Nester& nester, const Workload& workload, const Dependencies& d, double target) {
  const std::int32_t largest = nester.generates() ? nester.largest_extra_warmup() : 0;
  std::vector<double> makespans(static_cast<std::size_t>(largest) + 1, kNever);
  double best = kNever;
  for (std::int32_t D = 0; D <= largest; ++D) {
    auto orders = nester.order(D);
    if (!orders) continue;
    makespans[D] = earliest_times(d, *orders).makespan;
    best = std::min(best, makespans[D]);
    if (makespans[D] <= target) return {std::move(*orders), D};
  }
  for (std::int32_t D = 0; D <= largest; ++D) {
    if (makespans[D] < kNever && makespans[D] <= best * kWorthIt) return {*nester.order(D), D};
  }
  const std::int32_t everything = workload.microbatches * workload.chunks;  // all forwards first: never a deadlock
  return {nester.order(everything).value(), everything};
}

/// Every D up to 2P, then in steps, up to four rounds of all chunks more: what a pool far from the LLM may need.
std::vector<std::int32_t> warmups_to_try(const Workload& workload) {
  if (!has_generator_rows(workload)) return {0};
  const std::int64_t P = workload.stages, V = workload.chunks, most = std::int64_t{workload.microbatches} * V;
  std::vector<std::int32_t> result;
  for (std::int64_t D = 0; D <= std::min(4 * P * V, most); D += D < 2 * P ? 1 : std::max<std::int64_t>(1, P / 2)) {
    result.push_back(static_cast<std::int32_t>(D));
  }
  return result;
}

Caps nested_caps(const Workload& workload) {
  Caps caps;
  for (const PoolWorkload& pool : workload.pools) {
    const auto size = static_cast<std::int32_t>(pool.lanes.size());
    caps.push_back(pool.in_flight_cap.value_or(kRoundsInFlight * ((workload.stages + size - 1) / size)));
  }
  return caps;
}

/// True where every pool is one member on the lane that `coupled` would use.
bool is_coupled_placement(const Workload& workload) {
  const Workload other = coupled_workload(workload);
  for (std::size_t p = 0; p < workload.pools.size(); ++p) {
    if (workload.pools[p].lanes != other.pools[p].lanes) return false;
  }
  return true;
}

}  // namespace

Schedule nested(const Workload& workload, const Dependencies& d, std::optional<std::int32_t> extra_warmup) {
  const Nester nester(workload, d);
  if (extra_warmup) {
    auto orders = nester.order(*extra_warmup);
    if (!orders) {
      throw Error("extra_warmup",
                  std::to_string(*extra_warmup) + " forwards more let no round of the generator pass the last stage",
                  "leave it to the search");
    }
    return {std::move(*orders), *extra_warmup};
  }
  const double target = decoupled_makespan(workload, d) * (1 + kSameTime);
  Schedule best = stop_clock(nester, workload, d, target);
  double makespan = earliest_times(d, best.orders).makespan;
  if (makespan <= target) return best;

  // Rounds that stop every lane lose where pools are small, skewed or far away: cut each microbatch by itself there.
  Placement placed = place_with_search(workload, d, warmups_to_try(workload), nested_caps(workload));
  if (placed.makespan < makespan) {
    best = std::move(placed.schedule);
    makespan = placed.makespan;
  }
  if (is_coupled_placement(workload)) {
    Schedule other = coupled(workload, d, std::nullopt);
    if (earliest_times(d, other.orders).makespan < makespan) best = std::move(other);
  }
  return best;
}

}  // namespace nestor::scheduler::policies
