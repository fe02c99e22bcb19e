#include <algorithm>

#include <fmt/format.h>

#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler::verification {
namespace {

/// The operator at one end of a transfer; invalid where the workload has none.
OperatorId end_of(const Dependencies& dependencies, const Operator& row, std::int16_t module, std::int32_t stage) {
  Operator end;
  end.kind = row.direction == Direction::activation ? OpKind::forward : OpKind::backward;
  end.module = module;
  end.microbatch = row.microbatch;
  end.stage = stage;
  return dependencies.find(end);
}

}  // namespace

void check_pairs(State& state) {
  const Dependencies& dependencies = state.dependencies;
  const OperatorTable& table = state.plan.table;
  const std::size_t edges = state.edge_of(OperatorId{dependencies.size() - 1}) +
                            dependencies.needs(OperatorId{dependencies.size() - 1}).size();
  std::vector<std::uint32_t> sends(edges, kNone), recvs(edges, kNone);
  state.mate.assign(table.operators.size(), kNone);
  for (std::uint32_t i = 0; i < table.operators.size() && !state.full(); ++i) {
    const Operator& row = state.row(i);
    if (!row.is_transfer()) continue;
    const bool is_send = row.kind == OpKind::send;
    const OperatorId producer = end_of(dependencies, row, row.module, row.stage);
    const OperatorId consumer = end_of(dependencies, row, row.to_module, row.to_stage);
    std::size_t edge = edges;
    if (producer.valid() && consumer.valid() && state.crosses(producer, consumer)) {
      const auto needs = dependencies.needs(consumer);
      for (std::size_t k = 0; k < needs.size(); ++k)
        if (needs[k] == producer) edge = state.edge_of(consumer) + k;
    }
    if (edge == edges) {
      const char* why = "nothing in the workload needs it";
      if (!producer.valid())
        why = "its sender does not exist for this microbatch";
      else if (!consumer.valid())
        why = "its reader does not exist for this microbatch";
      else if (!state.crosses(producer, consumer))
        why = "both of its ends are on one lane";
      state.fault(state.place(i), fmt::format("is a needless transfer: {}", why));
      continue;
    }
    const LaneId here = dependencies.lane(is_send ? producer : consumer),
                 there = dependencies.lane(is_send ? consumer : producer);
    if (state.lane_of_row[i] != here.value) {
      state.fault(state.place(i), fmt::format("belongs on lane {}", here.value));
      continue;
    }
    if (row.peer != there.value) {
      state.fault(state.place(i), "names lane " + std::to_string(row.peer) + ", the other end is on lane " +
                                      std::to_string(there.value));
      continue;
    }
    std::uint32_t& slot = (is_send ? sends : recvs)[edge];
    if (slot != kNone) {
      state.fault(state.place(i), "stands a second time; the first is " + state.place(slot));
      continue;
    }
    slot = i;
    state.op_of_row[i] = is_send ? producer.value : consumer.value;
    const std::uint32_t own = state.row_of_op[static_cast<std::size_t>(state.op_of_row[i])];
    if (is_send && i < own)
      state.fault(state.place(i), "stands before the operator that makes what it sends, " + state.place(own));
    if (!is_send && i > own)
      state.fault(state.place(i), "stands after the operator that reads it, " + state.place(own));
  }
  for (std::int32_t v = 0; v < dependencies.size() && !state.full(); ++v) {
    const OperatorId op{v};
    if (!dependencies.exists(op)) continue;
    const auto needs = dependencies.needs(op);
    const std::size_t first = state.edge_of(op);
    for (std::size_t k = 0; k < needs.size(); ++k) {
      if (!state.crosses(needs[k], op)) continue;
      const std::uint32_t send = sends[first + k], recv = recvs[first + k];
      if (send != kNone && recv != kNone) {
        state.mate[send] = recv;
        state.mate[recv] = send;
      } else if (send != kNone) {
        state.fault(state.place(send),
                    fmt::format("has no recv on lane {}: nobody reads it", dependencies.lane(op).value));
      } else if (recv != kNone) {
        state.fault(state.place(recv),
                    fmt::format("has no send on lane {}: it would wait for ever", dependencies.lane(needs[k]).value));
      } else {
        state.fault(fmt::format("lane {}", dependencies.lane(op).value),
                    fmt::format("'{}' needs '{}' of lane {}, but no transfer brings it", state.named(op),
                                state.named(needs[k]), dependencies.lane(needs[k]).value));
      }
    }
  }
}

}  // namespace nestor::scheduler::verification
