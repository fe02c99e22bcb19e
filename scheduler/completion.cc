#include <algorithm>

#include <nestor/scheduler/completion.h>
#include <nestor/scheduler/error.h>
#include <nestor/scheduler/lowering.h>
#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler {
namespace {

using Lanes = std::vector<std::vector<Operator>>;

void refuse_faults(const std::vector<Fault>& faults) {
  if (!faults.empty()) throw Error(faults.front().where, faults.front().what, "");
}

bool has(const Plan& plan, bool (*is)(const Operator&)) {
  return std::any_of(plan.table.operators.begin(), plan.table.operators.end(), is);
}
bool is_transfer(const Operator& op) {
  return op.is_transfer();
}
bool is_end(const Operator& op) {
  return op.kind == OpKind::reduce || op.kind == OpKind::update;
}

/// Gives halves without a duration their share. A half that states one leaves the rest to the other.
void share_backwards(Plan& plan, const Dependencies& dependencies) {
  for (Operator& row : plan.table.operators) {
    const bool input = row.kind == OpKind::backward_input;
    if ((!input && row.kind != OpKind::backward_weight) || row.end > row.start) continue;
    Operator whole = row;
    whole.kind = OpKind::backward;
    const OperatorId op = dependencies.find(whole);
    row.start = 0;
    row.end =
        op.valid() ? (dependencies.cost(op) - dependencies.recompute(op)) * (input ? kInputShare : 1 - kInputShare) : 0;
  }
}

void put(Plan& plan, const Lanes& lanes) {
  plan.table.operators.clear();
  plan.table.lane_begin.assign(1, 0);
  for (const auto& lane : lanes) {
    plan.table.operators.insert(plan.table.operators.end(), lane.begin(), lane.end());
    plan.table.lane_begin.push_back(static_cast<std::uint32_t>(plan.table.operators.size()));
  }
}

/// The cross-lane readers of every operator, as one list through the dependencies.
struct Readers {
  std::vector<std::uint32_t> begin;
  std::vector<OperatorId> readers;
  explicit Readers(const Dependencies& d) : begin(static_cast<std::size_t>(d.size()) + 1, 0) {
    each(d, [&](OperatorId from, OperatorId) { ++begin[from.index() + 1]; });
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    readers.resize(begin.back());
    std::vector<std::uint32_t> at(begin.begin(), begin.end() - 1);
    each(d, [&](OperatorId from, OperatorId to) { readers[at[from.index()]++] = to; });
  }
  template <class Visit>
  static void each(const Dependencies& d, Visit visit) {
    for (std::int32_t v = 0; v < d.size(); ++v) {
      const OperatorId op{v};
      if (!d.exists(op)) continue;
      for (OperatorId need : d.needs(op))
        if (d.lane(need) != d.lane(op)) visit(need, op);
    }
  }
};

/// Pair-atomic order: rows by the time they end; behind what makes something its sends, and each one's recv at the same
/// moment at the end of the reader's lane.
Lanes lower_rows(const verification::State& state) {
  const Dependencies& d = state.dependencies;
  const Readers readers(d);
  std::vector<std::uint32_t> order = state.sequence;
  auto end_of = [&](std::uint32_t i) { return state.row(i).end; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return end_of(a) < end_of(b); });
  Lanes lanes(static_cast<std::size_t>(state.plan.table.lanes()));
  for (std::uint32_t i : order) {
    const Operator& row = state.row(i);
    const auto lane = static_cast<std::size_t>(state.lane_of_row[i]);
    lanes[lane].push_back(row);
    if (row.kind == OpKind::backward_weight || row.kind == OpKind::recompute) continue;
    const OperatorId op{state.op_of_row[i]};
    for (std::uint32_t r = readers.begin[op.index()]; r < readers.begin[op.index() + 1]; ++r) {
      const OperatorId reader = readers.readers[r];
      const Operator to = d.row(reader);
      Operator transfer = row;
      transfer.kind = OpKind::send;
      transfer.direction = d.is_backward(op) ? Direction::gradient : Direction::activation;
      transfer.to_module = to.module;
      transfer.to_stage = to.stage;
      transfer.peer = d.lane(reader).value;
      transfer.start = row.end;
      transfer.end = row.end + d.transfer_seconds(op, reader);
      lanes[lane].push_back(transfer);
      transfer.kind = OpKind::recv;
      transfer.peer = static_cast<std::int32_t>(lane);
      lanes[d.lane(reader).index()].push_back(transfer);
    }
  }
  return lanes;
}

Lanes rows_of(const Plan& plan) {
  Lanes lanes;
  for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane) {
    const auto row = plan.table.row(LaneId{lane});
    lanes.emplace_back(row.begin(), row.end());
  }
  return lanes;
}

/// Transfers that the plan brought take place as soon as what they carry is there.
void time_transfers(verification::State& state, Plan& plan) {
  for (std::size_t i = 0; i < plan.table.operators.size(); ++i) {
    Operator& row = plan.table.operators[i];
    if (!row.is_transfer()) continue;
    Operator from = row, to = row;
    from.kind = to.kind = row.direction == Direction::gradient ? OpKind::backward : OpKind::forward;
    to.module = row.to_module;
    to.stage = row.to_stage;
    const OperatorId producer = state.dependencies.find(from), reader = state.dependencies.find(to);
    if (!producer.valid() || !reader.valid()) continue;  // the verifier says so
    row.start = state.earliest_end[producer.index()];
    row.end = row.start + state.dependencies.transfer_seconds(producer, reader);
  }
}

void append_ends(Plan& plan, Lanes& lanes) {
  plan.table.reductions = reductions_of(plan.workload, plan.table.reductions);
  std::vector<std::uint8_t> holds(lanes.size(), 0);
  for (LaneId lane : plan.workload.llm.lanes) holds[lane.index()] = 1;
  for (const PoolWorkload& pool : plan.workload.pools)
    for (LaneId lane : pool.lanes) holds[lane.index()] = 1;
  Operator last;
  last.start = last.end = plan.makespan;
  last.kind = OpKind::reduce;
  for (std::size_t r = 0; r < plan.table.reductions.size(); ++r) {
    last.module = static_cast<std::int16_t>(plan.table.reductions[r].module.value);
    last.reduction = static_cast<std::int32_t>(r);
    for (LaneId lane : plan.table.reductions[r].lanes) lanes[lane.index()].push_back(last);
  }
  last.kind = OpKind::update;
  last.module = 0;
  last.peer = -1;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    if (holds[lane]) lanes[lane].push_back(last);
}

}  // namespace

void complete(Plan& plan) {
  validate(plan.workload, "workload");
  const bool had_transfers = has(plan, is_transfer), had_ends = has(plan, is_end);
  while (plan.table.lanes() < plan.workload.lane_count()) plan.table.lane_begin.push_back(plan.table.lane_begin.back());
  std::vector<Fault> faults;
  verification::State state(plan, faults);
  share_backwards(plan, state.dependencies);
  verification::check_rows(state);
  refuse_faults(faults);
  verification::check_order(state);
  refuse_faults(faults);
  for (std::uint32_t i : state.sequence) {
    Operator& row = plan.table.operators[i];
    const double seconds = state.seconds(i);
    row.start = state.earliest_start[i];
    row.end = row.start + seconds;
  }
  plan.makespan = state.earliest_makespan;
  plan.in_flight = verification::peaks(state);
  if (had_transfers) time_transfers(state, plan);
  if (had_transfers && had_ends) return;
  Lanes lanes = had_transfers ? rows_of(plan) : lower_rows(state);
  if (!had_transfers && had_ends)  // lowering walks compute rows alone
    for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane)
      for (const Operator& row : plan.table.row(LaneId{lane}))
        if (is_end(row)) lanes[static_cast<std::size_t>(lane)].push_back(row);
  if (!had_ends) append_ends(plan, lanes);
  put(plan, lanes);
}

}  // namespace nestor::scheduler
