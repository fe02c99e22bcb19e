#include <algorithm>

#include <fmt/format.h>

#include <nestor/scheduler/describe.h>
#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler::verification {

State::State(const Plan& p, std::vector<Fault>& f) : plan(p), dependencies(p.workload), faults(f) {
  const std::size_t rows = plan.table.operators.size(), ops = static_cast<std::size_t>(dependencies.size());
  lane_of_row.resize(rows);
  op_of_row.assign(rows, -1);
  row_of_op.assign(ops, kNone);
  tolerance = 1e-8 * std::max(plan.makespan, 1e-9);
  for (const Operator& op : plan.table.operators) {
    has_split |= op.kind == OpKind::backward_input || op.kind == OpKind::backward_weight;
    has_recompute |= op.kind == OpKind::recompute;
  }
  if (has_split) weight_row.assign(ops, kNone);
  if (has_recompute) recompute_row.assign(ops, kNone);
}

std::string State::place(std::uint32_t row) const {
  const auto& begin = plan.table.lane_begin;
  const auto lane = static_cast<std::size_t>(std::upper_bound(begin.begin(), begin.end(), row) - begin.begin()) - 1;
  return describe(plan, LaneId{static_cast<std::int64_t>(lane)}, row - begin[lane]);
}

std::string State::named(OperatorId op) const {
  return describe(plan.workload, dependencies.row(op));
}

namespace {

/// The operator that a compute row belongs to, as `Dependencies` knows whole forwards and backwards.
OperatorId operator_of(const Dependencies& dependencies, const Operator& row) {
  Operator whole = row;
  if (row.kind != OpKind::forward) whole.kind = OpKind::backward;
  return dependencies.find(whole);
}

/// Why the workload has no such operator.
std::string why_missing(const State& state, const Operator& row) {
  const Workload& workload = state.plan.workload;
  if (row.module < 0 || row.module > static_cast<std::int32_t>(workload.pools.size()))
    return "the workload has no module of this number";
  if (row.microbatch < 0 || row.microbatch >= workload.microbatches)
    return "the step has microbatches 0 to " + std::to_string(workload.microbatches - 1);
  if (row.module == kLlm.value && (row.stage < 0 || row.stage >= workload.model_stages()))
    return "the LLM has stages 0 to " + std::to_string(workload.model_stages() - 1);
  if (row.module != kLlm.value && row.stage != -1) return "a pool module has no stage";
  const ModuleId module{row.module};
  if (module != kLlm && workload.pool(module).absent[static_cast<std::size_t>(row.microbatch)])
    return "this microbatch lacks the modality, so nothing of it may run";
  return "neither the module nor anything upstream of it is trainable, so there is no backward";
}

bool recomputes(const Workload& workload, ModuleId module) {
  return module == kLlm ? workload.llm.recompute : workload.pool(module).recompute;
}

}  // namespace

void check_rows(State& state) {
  const OperatorTable& table = state.plan.table;
  const Dependencies& dependencies = state.dependencies;
  if (table.lanes() < dependencies.lanes()) {
    state.fault("plan", "has " + std::to_string(table.lanes()) + " lanes, its workload needs " +
                            std::to_string(dependencies.lanes()));
    return;
  }
  const auto& order = state.plan.microbatch_order;
  if (!order.empty()) {
    std::vector<std::uint8_t> seen(static_cast<std::size_t>(state.plan.workload.microbatches), 0);
    bool permutation = order.size() == seen.size();
    for (std::int32_t m : order)
      permutation =
          permutation && m >= 0 && static_cast<std::size_t>(m) < seen.size() && !seen[static_cast<std::size_t>(m)]++;
    if (!permutation) state.fault("microbatch_order", "is no permutation of the step's microbatches");
  }
  std::int32_t found = 0;
  for (std::int32_t lane = 0; lane < table.lanes(); ++lane) {
    for (std::uint32_t i = table.lane_begin[static_cast<std::size_t>(lane)];
         i < table.lane_begin[static_cast<std::size_t>(lane) + 1]; ++i) {
      state.lane_of_row[i] = lane;
      const Operator& row = state.row(i);
      if (!row.is_compute()) continue;
      const OperatorId op = operator_of(dependencies, row);
      if (!op.valid()) {
        state.fault(state.place(i), "is no operator of the workload: " + why_missing(state, row));
        continue;
      }
      if (dependencies.lane(op).value != lane) {
        state.fault(state.place(i), "belongs on lane " + std::to_string(dependencies.lane(op).value));
        continue;
      }
      state.op_of_row[i] = op.value;
      auto& slot = row.kind == OpKind::backward_weight ? state.weight_row[op.index()]
                   : row.kind == OpKind::recompute     ? state.recompute_row[op.index()]
                                                       : state.row_of_op[op.index()];
      if (slot != kNone) {
        state.fault(state.place(i), "runs a second time; the first is " + state.place(slot));
        continue;
      }
      slot = i;
      found += row.kind != OpKind::backward_weight && row.kind != OpKind::recompute;
    }
  }
  if (state.full()) return;
  const bool may_recompute = state.plan.workload.llm.recompute ||
                             std::any_of(state.plan.workload.pools.begin(), state.plan.workload.pools.end(),
                                         [](const auto& pool) { return pool.recompute; });
  if (found == dependencies.count() && !state.has_split && !state.has_recompute && !may_recompute) return;
  for (std::int32_t v = 0; v < dependencies.size() && !state.full(); ++v) {
    const OperatorId op{v};
    if (!dependencies.exists(op)) continue;
    const std::uint32_t row = state.row_of_op[op.index()];
    if (row == kNone) {
      state.fault(fmt::format("lane {}", dependencies.lane(op).value),
                  fmt::format("'{}' is missing{}", state.named(op),
                              dependencies.is_backward(op) ? ": its activation would never be freed" : ""));
      continue;
    }
    if (!dependencies.is_backward(op)) continue;
    const bool split = state.row(row).kind == OpKind::backward_input;
    const bool weight = state.has_split && state.weight_row[op.index()] != kNone;
    if (split && !weight)
      state.fault(state.place(row), "has no backward_weight: what it keeps for one would never be freed");
    if (weight && !split)
      state.fault(state.place(state.weight_row[op.index()]), "has no backward_input: a whole backward runs instead");
    const bool expected = recomputes(state.plan.workload, dependencies.module(op));
    const bool recompute = state.has_recompute && state.recompute_row[op.index()] != kNone;
    if (expected && !recompute)
      state.fault(state.place(row), "has no recompute row, though the workload recomputes this module");
    if (recompute && !expected)
      state.fault(state.place(state.recompute_row[op.index()]), "recomputes a module whose activations are kept");
  }
}

}  // namespace nestor::scheduler::verification
