#include <algorithm>

#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler::verification {
namespace {

/// The backbone's LLM operators of one lane, in order, handed to `visit(is_backward, microbatch, stage)` until that
/// returns false. 1F1B for one chunk, interleaved 1F1B (Narayanan et al., 2021) for more: warm-up forwards, then one
/// forward and one backward in turn, then the backwards that are left. Microbatches beyond M fill the last group and
/// are struck out. Written apart from the policies, so that a slip there cannot hide here.
template <class Visit>
void walk_backbone(const Workload& workload, std::int32_t lane, std::int32_t extra_warmup, Visit visit) {
  const std::int64_t p = workload.stages, v = workload.chunks, m = workload.microbatches;
  const std::int64_t padded = v == 1 ? m : (m + p - 1) / p * p, total = padded * v;
  const std::int64_t least = v == 1 ? p - 1 - lane : 2 * (p - 1 - lane) + (v - 1) * p;
  const std::int64_t warmup = std::min(total, least + extra_warmup);
  auto unit = [&](std::int64_t k, bool backward) {
    const std::int64_t microbatch = k / (p * v) * p + k % p, chunk = k % (p * v) / p;
    if (microbatch >= m) return true;
    return visit(backward, static_cast<std::int32_t>(microbatch),
                 static_cast<std::int32_t>((backward ? v - 1 - chunk : chunk) * p + lane));
  };
  for (std::int64_t k = 0; k < warmup; ++k)
    if (!unit(k, false)) return;
  for (std::int64_t k = warmup; k < total; ++k)
    if (!unit(k, false) || !unit(k - warmup, true)) return;
  for (std::int64_t k = total - warmup; k < total; ++k)
    if (!unit(k, true)) return;
}

bool default_lanes(const Workload& workload) {
  for (std::int32_t s = 0; s < workload.model_stages(); ++s)
    if (workload.llm.lanes[static_cast<std::size_t>(s)].value != s % workload.stages) return false;
  return true;
}

}  // namespace

void check_backbone(State& state) {
  if (state.plan.custom_backbone) return;
  const Workload& workload = state.plan.workload;
  if (!default_lanes(workload)) {
    state.fault("plan",
                "has LLM stages on other lanes than stage mod P, an order of its own is then needed (\"backbone\": "
                "\"custom\")");
    return;
  }
  if (state.plan.extra_warmup < 0) {
    state.fault("extra_warmup", "is " + std::to_string(state.plan.extra_warmup) + ", less than 0");
    return;
  }
  const Dependencies& dependencies = state.dependencies;
  for (std::int32_t lane = 0; lane < workload.stages; ++lane) {
    std::uint32_t i = state.plan.table.lane_begin[static_cast<std::size_t>(lane)];
    const std::uint32_t end = state.plan.table.lane_begin[static_cast<std::size_t>(lane) + 1];
    auto is_llm = [&](const Operator& row) {
      return row.module == kLlm.value &&
             (row.kind == OpKind::forward || row.kind == OpKind::backward || row.kind == OpKind::backward_input);
    };
    walk_backbone(
        workload, lane, state.plan.extra_warmup, [&](bool backward, std::int32_t microbatch, std::int32_t stage) {
          const OperatorId expected =
              backward ? dependencies.backward(kLlm, microbatch, stage) : dependencies.forward(kLlm, microbatch, stage);
          if (!dependencies.exists(expected)) return true;
          while (i < end && !is_llm(state.row(i))) ++i;
          if (i < end && state.op_of_row[i] == expected.value) return ++i, true;
          const std::string name = workload.chunks == 1 ? "1F1B" : "interleaved";
          state.fault(i < end ? state.place(i) : "lane " + std::to_string(lane),
                      "breaks the LLM's " + name + " order, which has '" + state.named(expected) +
                          "' here (extra warm-up " + std::to_string(state.plan.extra_warmup) + ")");
          return false;
        });
    if (state.full()) return;
  }
}

void check_order(State& state) {
  const Dependencies& dependencies = state.dependencies;
  const OperatorTable& table = state.plan.table;
  // Within a lane: halves of a backward in turn, recomputation between forward and backward.
  if (state.has_split || state.has_recompute)
    for (std::int32_t v = 0; v < dependencies.size() && !state.full(); ++v) {
      const OperatorId op{v};
      if (!dependencies.exists(op) || !dependencies.is_backward(op)) continue;
      const std::uint32_t row = state.row_of_op[op.index()];
      if (state.has_split && state.weight_row[op.index()] != kNone && state.weight_row[op.index()] < row)
        state.fault(state.place(state.weight_row[op.index()]), "stands before its backward_input");
      if (!state.has_recompute || state.recompute_row[op.index()] == kNone) continue;
      const std::uint32_t again = state.recompute_row[op.index()];
      const OperatorId forward = dependencies.forward(dependencies.module(op), dependencies.microbatch(op),
                                                      std::max(dependencies.row(op).stage, 0));
      if (again < state.row_of_op[forward.index()]) state.fault(state.place(again), "stands before its forward");
      if (again > row) state.fault(state.place(again), "stands after its backward");
    }
  if (!state.faults.empty()) return;

  // Across lanes: run every lane as far as it goes, and note when each operator could end.
  const std::size_t lanes = static_cast<std::size_t>(table.lanes());
  std::vector<std::uint32_t> position(table.lane_begin.begin(), table.lane_begin.end() - 1);
  std::vector<double> clock(lanes, 0);
  state.earliest_end.assign(static_cast<std::size_t>(dependencies.size()), -1);
  std::vector<std::int32_t> waits_for(lanes, -1), next_waiter(lanes, -1);
  std::vector<std::int32_t> first_waiter(static_cast<std::size_t>(dependencies.size()),
                                         -1);  // lanes held by an operator
  std::vector<std::int32_t> work;
  state.earliest_start.assign(table.operators.size(), 0);
  state.sequence.reserve(static_cast<std::size_t>(dependencies.count()));
  auto run = [&](std::uint32_t i, std::size_t lane, double start) {
    state.earliest_start[i] = start;
    state.sequence.push_back(i);
    clock[lane] = start + state.seconds(i);
  };
  for (std::size_t lane = lanes; lane-- > 0;) work.push_back(static_cast<std::int32_t>(lane));
  while (!work.empty()) {
    const auto lane = static_cast<std::size_t>(work.back());
    work.pop_back();
    waits_for[lane] = -1;
    for (std::uint32_t& i = position[lane]; i < table.lane_begin[lane + 1]; ++i) {
      const Operator& row = state.row(i);
      if (!row.is_compute()) continue;
      const OperatorId op{state.op_of_row[i]};
      if (row.kind == OpKind::backward_weight || row.kind == OpKind::recompute) {
        run(i, lane, clock[lane]);
        continue;
      }
      double start = clock[lane];
      for (OperatorId need : dependencies.needs(op)) {
        const double end = state.earliest_end[need.index()];
        if (end < 0) {
          waits_for[lane] = need.value;
          next_waiter[lane] = first_waiter[need.index()];
          first_waiter[need.index()] = static_cast<std::int32_t>(lane);
          break;
        }
        start = std::max(start, end + dependencies.transfer_seconds(need, op));
      }
      if (waits_for[lane] >= 0) break;
      run(i, lane, start);
      state.earliest_end[op.index()] = clock[lane];
      for (std::int32_t held = first_waiter[op.index()]; held >= 0; held = next_waiter[static_cast<std::size_t>(held)])
        work.push_back(held);
    }
    state.earliest_makespan = std::max(state.earliest_makespan, clock[lane]);
  }
  std::size_t lane = 0;
  while (lane < lanes && waits_for[lane] < 0) ++lane;
  if (lane == lanes) return;

  // Follow the waits from lane to lane until one comes again: that is the cycle.
  std::vector<std::uint8_t> seen(lanes, 0);
  while (!seen[lane]) {
    seen[lane] = 1;
    lane = dependencies.lane(OperatorId{waits_for[lane]}).index();
  }
  const std::size_t start = lane;
  std::string story;
  do {
    const std::size_t other = dependencies.lane(OperatorId{waits_for[lane]}).index();
    story += (story.empty() ? "lane " : ", lane ") + std::to_string(lane) + " waits in '" +
             state.named(OperatorId{state.op_of_row[position[lane]]}) + "' for '" +
             state.named(OperatorId{waits_for[lane]}) +
             (other == lane ? "', which it runs only later" : "' of lane " + std::to_string(other));
    lane = other;
  } while (lane != start && story.size() < 2000);
  state.fault(state.place(position[start]), "the lanes' orders wait for each other in a circle: " + story);
}

}  // namespace nestor::scheduler::verification
