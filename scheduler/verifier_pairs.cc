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
  struct Ends {
    std::uint32_t send = kNone, recv = kNone;
  };
  std::vector<Ends> ends(edges);  // by dependency
  std::size_t pairs = 0;
  state.mate.assign(table.operators.size(), kNone);
  each_row(table, [&](std::size_t lane, std::uint32_t i) {
    const Operator& row = state.row(i);
    if (!row.is_transfer() || state.full()) return;
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
      return;
    }
    const LaneId here = dependencies.lane(is_send ? producer : consumer),
                 there = dependencies.lane(is_send ? consumer : producer);
    if (static_cast<std::int32_t>(lane) != here.value) {
      state.fault(state.place(i), fmt::format("belongs on lane {}", here.value));
      return;
    }
    if (row.peer != there.value) {
      state.fault(state.place(i), "names lane " + std::to_string(row.peer) + ", the other end is on lane " +
                                      std::to_string(there.value));
      return;
    }
    std::uint32_t& slot = is_send ? ends[edge].send : ends[edge].recv;
    const std::uint32_t other = is_send ? ends[edge].recv : ends[edge].send;
    if (slot != kNone) {
      state.fault(state.place(i), "stands a second time; the first is " + state.place(slot));
      return;
    }
    slot = i;
    if (other != kNone) {
      state.mate[i] = other;
      state.mate[other] = i;
      ++pairs;
    }
    state.op_of_row[i] = is_send ? producer.value : consumer.value;
    const std::uint32_t own = state.row_of_op[static_cast<std::size_t>(state.op_of_row[i])];
    if (is_send && i < own)
      state.fault(state.place(i), "stands before the operator that makes what it sends, " + state.place(own));
    if (!is_send && i > own)
      state.fault(state.place(i), "stands after the operator that reads it, " + state.place(own));
  });
  std::size_t crossings = 0;
  for (std::int32_t v = 0; v < dependencies.size(); ++v)
    if (dependencies.exists(OperatorId{v}))
      for (OperatorId need : dependencies.needs(OperatorId{v})) crossings += state.crosses(need, OperatorId{v});
  if (pairs == crossings) return;  // none was needless or doubled, so none is missing
  for (std::int32_t v = 0; v < dependencies.size() && !state.full(); ++v) {
    const OperatorId op{v};
    if (!dependencies.exists(op)) continue;
    const auto needs = dependencies.needs(op);
    const std::size_t first = state.edge_of(op);
    for (std::size_t k = 0; k < needs.size(); ++k) {
      if (!state.crosses(needs[k], op)) continue;
      const std::uint32_t send = ends[first + k].send, recv = ends[first + k].recv;
      if (send != kNone && recv != kNone) continue;
      if (send != kNone) {
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
