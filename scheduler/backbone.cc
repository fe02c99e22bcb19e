#include <algorithm>
#include <queue>

#include <nestor/scheduler/backbone.h>

namespace nestor::scheduler {
namespace {

/// The standard orders: warm-up, alternation of one forward and one backward, drain.
LaneOrders standard(const Dependencies& d, const Workload& workload, std::int64_t extra_warmup) {
  const std::int64_t P = workload.stages, V = workload.chunks, M = workload.microbatches;
  const std::int64_t rounded = V == 1 ? M : (M + P - 1) / P * P;
  const std::int64_t total = rounded * V;
  OrderBuilder order(d, true);
  for (std::int64_t lane = 0; lane < P; ++lane) {
    auto unit = [&](std::int64_t k, bool backward) {
      const std::int64_t m = k / (P * V) * P + k % P;
      if (m >= M) return;
      const std::int64_t chunk = k % (P * V) / P;
      const auto microbatch = static_cast<std::int32_t>(m);
      const auto stage = static_cast<std::int32_t>((backward ? V - 1 - chunk : chunk) * P + lane);
      order.append_if_exists(backward ? d.backward(kLlm, microbatch, stage) : d.forward(kLlm, microbatch, stage));
    };
    const std::int64_t plain = V == 1 ? P - 1 - lane : 2 * (P - 1 - lane) + (V - 1) * P;
    const std::int64_t warmup = std::min(plain + extra_warmup, total);
    for (std::int64_t k = 0; k < warmup; ++k) unit(k, false);
    for (std::int64_t k = warmup; k < total; ++k) {
      unit(k, false);
      unit(k - warmup, true);
    }
    for (std::int64_t k = total - warmup; k < total; ++k) unit(k, true);
  }
  return order.take();
}

/// 1F1B of one model stage, as if it had a lane of its own: operator number k of its 2M.
struct StageOrder {
  std::int64_t warmup;
  std::int64_t microbatches;

  struct Unit {
    std::int32_t microbatch;
    bool backward;
  };
  Unit at(std::int64_t k) const {
    if (k < warmup) return {static_cast<std::int32_t>(k), false};
    const std::int64_t steady = k - warmup;
    if (steady < 2 * (microbatches - warmup)) {
      const bool backward = steady % 2 == 1;
      return {static_cast<std::int32_t>(backward ? steady / 2 : warmup + steady / 2), backward};
    }
    return {static_cast<std::int32_t>(k - microbatches), true};
  }
};

/// Any placement. The stages' own orders cannot deadlock, and a lane only merges those of its stages, in an order in
/// which a run of them all took place: so the lanes' orders cannot deadlock either.
LaneOrders merged(const Dependencies& d, const Workload& workload, std::int64_t extra_warmup) {
  const std::int64_t S = d.stages(), M = d.microbatches();
  std::vector<StageOrder> order_of(S);
  for (std::int64_t s = 0; s < S; ++s) order_of[s] = {std::min(S - 1 - s + extra_warmup, M), M};
  std::vector<std::int64_t> next(S, 0);
  std::vector<std::vector<std::int32_t>> stages_of(d.lanes());
  for (std::int32_t s = 0; s < S; ++s) stages_of[workload.llm.lanes[s].index()].push_back(s);
  std::vector<double> end(2 * S * M, -1.0), lane_free(d.lanes(), 0.0);
  OrderBuilder order(d, true);

  using Wake = std::pair<double, std::int32_t>;  // time, lane
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes;
  for (std::int32_t lane = 0; lane < d.lanes(); ++lane) {
    if (!stages_of[lane].empty()) wakes.emplace(0.0, lane);
  }
  auto wake_stage = [&](std::int64_t s, double now) {
    if (s < 0 || s >= S) return;
    const std::int32_t lane = workload.llm.lanes[s].value;
    wakes.emplace(std::max(now, lane_free[lane]), lane);
  };
  while (!wakes.empty()) {
    const double now = wakes.top().first;
    const std::int32_t lane = wakes.top().second;
    wakes.pop();
    if (lane_free[lane] > now) continue;  // it is busy, and will be woken when it is not
    std::int32_t chosen = -1;
    StageOrder::Unit chosen_unit{};
    for (const std::int32_t s : stages_of[lane]) {
      StageOrder::Unit unit{};
      for (; next[s] < 2 * M; ++next[s]) {  // rows that do not exist are passed over
        unit = order_of[s].at(next[s]);
        if (!unit.backward || d.exists(d.backward(kLlm, unit.microbatch, s))) break;
      }
      if (next[s] >= 2 * M) continue;
      const OperatorId op = unit.backward ? d.backward(kLlm, unit.microbatch, s) : d.forward(kLlm, unit.microbatch, s);
      const auto needs = d.needs(op);
      const bool ready = std::all_of(needs.begin(), needs.end(), [&](OperatorId need) {
        return need.value >= 2 * S * M || (end[need.index()] >= 0 && end[need.index()] <= now);
      });
      if (!ready) continue;
      const bool better = chosen < 0 || (unit.backward && !chosen_unit.backward) ||
                          (unit.backward == chosen_unit.backward && unit.microbatch < chosen_unit.microbatch) ||
                          (unit.backward == chosen_unit.backward && unit.microbatch == chosen_unit.microbatch &&
                           (unit.backward ? s < chosen : s > chosen));
      if (better) {
        chosen = s;
        chosen_unit = unit;
      }
    }
    if (chosen < 0) continue;
    const OperatorId op = chosen_unit.backward ? d.backward(kLlm, chosen_unit.microbatch, chosen)
                                               : d.forward(kLlm, chosen_unit.microbatch, chosen);
    order.append(op);
    ++next[chosen];
    const double finish = now + d.cost(op);
    end[op.index()] = lane_free[lane] = finish;
    wakes.emplace(finish, lane);
    wake_stage(chosen_unit.backward ? chosen - 1 : chosen + 1, finish);
  }
  return order.take();
}

}  // namespace

bool has_standard_placement(const Workload& workload) {
  for (std::int32_t s = 0; s < workload.model_stages(); ++s) {
    if (workload.llm.lanes[s].value != s % workload.stages) return false;
  }
  return true;
}

LaneOrders backbone(const Dependencies& dependencies, const Workload& workload, std::int32_t extra_warmup) {
  return has_standard_placement(workload) ? standard(dependencies, workload, extra_warmup)
                                          : merged(dependencies, workload, extra_warmup);
}

}  // namespace nestor::scheduler
