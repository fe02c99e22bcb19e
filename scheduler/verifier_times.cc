#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler::verification {
namespace {

/// Only true comparisons pass, so that a time that is no number never does.
bool at_least(double value, double least, double tolerance) {
  return value >= least - tolerance;
}
bool same(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance;
}

void check_compute(State& state, std::uint32_t i, double& clock) {
  const Dependencies& dependencies = state.dependencies;
  const Operator& row = state.row(i);
  const OperatorId op{state.op_of_row[i]};
  const double tolerance = state.tolerance;
  if (!std::isfinite(row.start) || !std::isfinite(row.end) || row.start < 0)
    return state.fault(state.place(i), fmt::format("has no time: starts at {}, ends at {}", row.start, row.end));
  if (!at_least(row.start, clock, tolerance))
    state.fault(state.place(i), fmt::format("starts at {} s, before the lane is free at {} s", row.start, clock));
  clock = std::max(clock, row.end);
  const double took = row.end - row.start;
  if (row.kind == OpKind::backward_input) {
    const Operator& weight = state.row(state.weight_row[op.index()]);
    const double both = took + weight.end - weight.start, cost = dependencies.cost(op) - dependencies.recompute(op);
    if (!at_least(took, 0, tolerance) || !same(both, cost, tolerance))
      state.fault(state.place(i), fmt::format("and its backward_weight take {} s, a backward costs {} s", both, cost));
  } else if (row.kind == OpKind::backward_weight) {
    if (!at_least(took, 0, tolerance)) state.fault(state.place(i), "ends before it starts");
    return;
  } else if (!same(took, state.seconds(i), tolerance)) {
    state.fault(state.place(i), fmt::format("takes {} s, it costs {} s", took, state.seconds(i)));
  }
  if (row.kind == OpKind::recompute) return;
  for (OperatorId need : dependencies.needs(op)) {
    const double ready = state.stated_end[need.index()] + dependencies.transfer_seconds(need, op);
    if (!at_least(row.start, ready, tolerance))
      state.fault(state.place(i),
                  fmt::format("starts at {} s, but '{}' is there at {} s only", row.start, state.named(need), ready));
  }
}

/// A transfer that costs nothing may stand without times; stated ones must fit.
void check_transfer(State& state, std::uint32_t i) {
  const Operator& row = state.row(i);
  if (row.start == 0 && row.end == 0) {
    if (row.kind != OpKind::send) return;
    const OperatorId from{state.op_of_row[i]}, to{state.op_of_row[state.mate[i]]};
    if (state.dependencies.transfer_seconds(from, to) > state.tolerance)
      state.fault(state.place(i), "has no times, though transfers of this workload take time");
    return;
  }
  const double tolerance = state.tolerance;
  if (!std::isfinite(row.start) || !std::isfinite(row.end) || !at_least(row.end, row.start, tolerance))
    return state.fault(state.place(i), fmt::format("starts at {} s and ends at {} s", row.start, row.end));
  const OperatorId own{state.op_of_row[i]}, other{state.op_of_row[state.mate[i]]};
  const double seconds = row.kind == OpKind::send ? state.dependencies.transfer_seconds(own, other)
                                                  : state.dependencies.transfer_seconds(other, own);
  if (!same(row.end - row.start, seconds, tolerance))
    state.fault(state.place(i), fmt::format("takes {} s, it costs {} s", row.end - row.start, seconds));
  if (row.kind == OpKind::send) {
    const double made = state.stated_end[static_cast<std::size_t>(state.op_of_row[i])];
    if (!at_least(row.start, made, tolerance))
      state.fault(state.place(i), fmt::format("starts at {} s, what it sends is made at {} s", row.start, made));
  } else {
    const std::uint32_t reader = state.row_of_op[static_cast<std::size_t>(state.op_of_row[i])];
    if (!at_least(state.row(reader).start, row.end, tolerance))
      state.fault(state.place(i),
                  fmt::format("ends at {} s, after its reader starts at {} s", row.end, state.row(reader).start));
    const double made = state.stated_end[other.index()];
    if (!at_least(row.start, made, tolerance))
      state.fault(state.place(i), fmt::format("starts at {} s, before what it takes is made at {} s", row.start, made));
  }
}

struct InFlight {
  std::vector<std::vector<double>> on_lanes;  ///< [module][lane], peaks
  std::vector<std::int32_t> members;          ///< peaks, members of all pools numbered through
  std::vector<std::size_t> first_member;      ///< by module
};

InFlight count(const State& state) {
  const OperatorTable& table = state.plan.table;
  const Workload& workload = state.plan.workload;
  const auto modules = static_cast<std::size_t>(state.dependencies.modules());
  const auto lanes = static_cast<std::size_t>(table.lanes());
  InFlight out;
  out.first_member.assign(modules + 1, 0);
  for (std::size_t m = 1; m < modules; ++m)
    out.first_member[m + 1] = out.first_member[m] + workload.pools[m - 1].lanes.size();
  out.members.assign(out.first_member[modules], 0);
  out.on_lanes.assign(modules, std::vector<double>(lanes, 0));
  std::vector<std::int32_t> member_level(out.members.size(), 0);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::vector<std::int32_t> level(modules, 0), peak(modules, 0);
    for (const Operator& row : table.row(LaneId{static_cast<std::int64_t>(lane)})) {
      const bool forward = row.kind == OpKind::forward;
      if (!forward && row.kind != OpKind::backward && row.kind != OpKind::backward_weight) continue;
      const auto module = static_cast<std::size_t>(row.module);
      if (forward &&
          !state.dependencies.exists(state.dependencies.backward(ModuleId{row.module}, row.microbatch, row.stage)))
        continue;  // nothing is kept for a backward that is not there
      level[module] += forward ? 1 : -1;
      peak[module] = std::max(peak[module], level[module]);
      if (module == 0) continue;
      const auto owner = workload.pools[module - 1].owner[static_cast<std::size_t>(row.microbatch)];
      const std::size_t member = out.first_member[module] + static_cast<std::size_t>(owner);
      member_level[member] += forward ? 1 : -1;
      out.members[member] = std::max(out.members[member], member_level[member]);
    }
    for (std::size_t m = 0; m < modules; ++m)
      out.on_lanes[m][lane] = peak[m] / (m == 0 ? static_cast<double>(workload.chunks) : 1.0);
  }
  return out;
}

/// `decoupled` keeps all activations by design and `coupled` as many as its order brings; the others keep to the cap.
bool honours_caps(const Plan& plan) {
  return plan.policy != "decoupled" && plan.policy != "coupled";
}

}  // namespace

void check_times(State& state) {
  const OperatorTable& table = state.plan.table;
  state.stated_end.assign(static_cast<std::size_t>(state.dependencies.size()), 0);
  for (std::size_t i = 0; i < table.operators.size(); ++i) {
    const Operator& row = table.operators[i];
    if (row.kind == OpKind::forward || row.kind == OpKind::backward || row.kind == OpKind::backward_input)
      state.stated_end[static_cast<std::size_t>(state.op_of_row[i])] = row.end;
  }
  std::vector<double> clock(table.lane_begin.size() - 1, 0);
  each_row(table, [&](std::size_t lane, std::uint32_t i) {
    const Operator& row = table.operators[i];
    if (state.full()) return;
    if (row.is_compute())
      check_compute(state, i, clock[lane]);
    else if (row.is_transfer())
      check_transfer(state, i);
  });
  const double last = clock.empty() ? 0 : *std::max_element(clock.begin(), clock.end());
  const double makespan = state.plan.makespan;
  if (!same(makespan, last, state.tolerance))
    state.fault("makespan", fmt::format("is stated as {} s, the last operator ends at {} s", makespan, last));
  else if (!same(makespan, state.earliest_makespan, state.tolerance))
    state.fault("makespan", fmt::format("is {} s, though these orders end at {} s", makespan, state.earliest_makespan));
}

std::vector<std::vector<double>> peaks(const State& state) {
  return count(state).on_lanes;
}

void check_peaks(State& state) {
  const Workload& workload = state.plan.workload;
  const auto modules = static_cast<std::size_t>(state.dependencies.modules());
  const InFlight counted = count(state);
  const auto& stated = state.plan.in_flight;
  if (stated.size() > modules)
    state.fault("in_flight", fmt::format("has {} modules, the workload {}", stated.size(), modules));
  for (std::size_t m = 0; m < std::min(modules, stated.size()); ++m) {
    const auto name = workload.name(ModuleId{static_cast<std::int64_t>(m)});
    if (stated[m].size() > counted.on_lanes[m].size())
      state.fault(fmt::format("in_flight.{}", name),
                  fmt::format("has {} lanes, the plan {}", stated[m].size(), counted.on_lanes[m].size()));
    for (std::size_t lane = 0; lane < counted.on_lanes[m].size() && !state.full(); ++lane) {
      const double claim = lane < stated[m].size() ? stated[m][lane] : 0;
      if (!same(claim, counted.on_lanes[m][lane], 1e-6))
        state.fault(fmt::format("in_flight.{}[{}]", name, lane),
                    fmt::format("is stated as {}, the lane's order gives {}", claim, counted.on_lanes[m][lane]));
    }
  }
  if (!honours_caps(state.plan)) return;
  for (std::size_t m = 1; m < modules; ++m) {
    const PoolWorkload& pool = workload.pools[m - 1];
    if (!pool.in_flight_cap) continue;
    for (std::size_t k = 0; k < pool.lanes.size(); ++k) {
      const std::int32_t peak = counted.members[counted.first_member[m] + k];
      if (peak > *pool.in_flight_cap)
        state.fault(fmt::format("pool {}, member {}", pool.name, k),
                    fmt::format("has {} activations in flight, its cap is {}", peak, *pool.in_flight_cap));
    }
  }
}

}  // namespace nestor::scheduler::verification
