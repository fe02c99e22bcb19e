#include <algorithm>

#include <fmt/format.h>

#include <nestor/scheduler/describe.h>
#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler::verification {
namespace {

std::string named(const State& state, const Reduction& reduction) {
  Operator row;
  row.kind = OpKind::reduce;
  row.module = static_cast<std::int16_t>(reduction.module.value);
  return fmt::format("'{}'", describe(state.plan.workload, row));
}

/// The reductions as stated: of a module, over an ascending list of lanes.
bool well_formed(State& state) {
  const OperatorTable& table = state.plan.table;
  for (std::size_t r = 0; r < table.reductions.size() && !state.full(); ++r) {
    const Reduction& reduction = table.reductions[r];
    const auto& lanes = reduction.lanes;
    const std::string where = fmt::format("reduction {}", r);
    if (reduction.module.value < 0 || reduction.module.value >= state.dependencies.modules())
      state.fault(where, "is of no module");
    else if (lanes.empty() || lanes.front().value < 0 || lanes.back().value >= table.lanes() ||
             std::adjacent_find(lanes.begin(), lanes.end(), [](LaneId a, LaneId b) { return a >= b; }) != lanes.end())
      state.fault(where, fmt::format("of {} has no ascending list of the plan's lanes", named(state, reduction)));
  }
  return state.faults.empty();
}

/// A pool of several lanes holds copies of one set of parameters: without the sum they would drift apart.
void check_pools_are_reduced(State& state) {
  const auto& reductions = state.plan.table.reductions;
  for (std::int32_t module = 1; module < state.dependencies.modules(); ++module) {
    const PoolWorkload& pool = state.plan.workload.pool(ModuleId{module});
    std::vector<LaneId> lanes = pool.lanes;
    std::sort(lanes.begin(), lanes.end());
    lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
    if (!pool.trainable || lanes.size() < 2) continue;
    const auto count = std::count_if(reductions.begin(), reductions.end(),
                                     [&](const Reduction& r) { return r.module.value == module; });
    const bool right = std::any_of(reductions.begin(), reductions.end(),
                                   [&](const Reduction& r) { return r.module.value == module && r.lanes == lanes; });
    if (count > 1)
      state.fault("pool " + pool.name, "is reduced more than once: its gradients would be summed again");
    else if (!right)
      state.fault("pool " + pool.name, "has no reduction over all of its lanes: its copies would drift apart");
  }
}

/// A reduction ends when every lane of it stands before it. `rows[lane]` are the lane's reductions in order.
void check_one_order(State& state, const std::vector<std::vector<std::uint32_t>>& rows) {
  const auto& reductions = state.plan.table.reductions;
  std::vector<std::size_t> position(rows.size(), 0), waiting(reductions.size(), 0);
  std::vector<std::uint32_t> ready;
  auto arrive = [&](std::size_t lane) {
    if (position[lane] >= rows[lane].size()) return;
    const std::uint32_t r = rows[lane][position[lane]];
    if (++waiting[r] == reductions[r].lanes.size()) ready.push_back(r);
  };
  for (std::size_t lane = 0; lane < rows.size(); ++lane) arrive(lane);
  std::size_t ended = 0;
  while (!ready.empty()) {
    const std::uint32_t r = ready.back();
    ready.pop_back();
    ++ended;
    for (LaneId lane : reductions[r].lanes) {
      ++position[lane.index()];
      arrive(lane.index());
    }
  }
  if (ended == reductions.size()) return;
  std::string stuck;
  for (std::size_t lane = 0; lane < rows.size() && stuck.size() < 400; ++lane)
    if (position[lane] < rows[lane].size())
      stuck += fmt::format("{}lane {} waits in {}", stuck.empty() ? "" : "; ", lane,
                           named(state, reductions[rows[lane][position[lane]]]));
  state.fault("reduce rows", "stand in different orders on their lanes, so that none can end: " + stuck);
}

}  // namespace

void check_ends(State& state) {
  if (!well_formed(state)) return;
  const OperatorTable& table = state.plan.table;
  const std::size_t lanes = static_cast<std::size_t>(table.lanes());
  std::vector<std::uint8_t> holds(lanes, 0);
  for (LaneId lane : state.plan.workload.llm.lanes) holds[lane.index()] = 1;
  for (const PoolWorkload& pool : state.plan.workload.pools)
    for (LaneId lane : pool.lanes) holds[lane.index()] = 1;
  std::vector<std::vector<std::uint32_t>> rows(lanes);                // reductions by lane, in order
  std::vector<std::vector<LaneId>> members(table.reductions.size());  // lanes by reduction, ascending
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::uint32_t update = kNone;
    for (std::uint32_t i = table.lane_begin[lane]; i < table.lane_begin[lane + 1] && !state.full(); ++i) {
      const Operator& row = state.row(i);
      if (row.kind == OpKind::update) {
        if (update != kNone) state.fault(state.place(i), "is a second update; a step updates once");
        update = i;
      } else if (update != kNone) {
        state.fault(state.place(i), "stands after the update");
      } else if (row.kind == OpKind::reduce) {
        const auto r = static_cast<std::size_t>(row.reduction);
        const LaneId here{static_cast<std::int64_t>(lane)};
        if (row.reduction < 0 || r >= table.reductions.size()) {
          state.fault(state.place(i), "names no reduction of the plan");
        } else if (row.module != table.reductions[r].module.value) {
          state.fault(state.place(i), "names one module, its reduction another");
        } else if (!members[r].empty() && members[r].back() == here) {
          state.fault(state.place(i), "reduces a second time");
        } else {
          members[r].push_back(here);
          rows[lane].push_back(static_cast<std::uint32_t>(r));
        }
      } else if (!rows[lane].empty()) {
        state.fault(state.place(i), "stands after a reduce row: gradients would be summed too early");
      }
    }
    if (holds[lane] && update == kNone)
      state.fault(fmt::format("lane {}", lane), "holds parameters but has no update row");
    if (!holds[lane] && update != kNone) state.fault(state.place(update), "updates a lane that holds no parameters");
  }
  if (!state.faults.empty()) return;
  for (std::size_t r = 0; r < members.size(); ++r) {
    const Reduction& reduction = table.reductions[r];
    std::vector<LaneId> odd;
    std::set_symmetric_difference(members[r].begin(), members[r].end(), reduction.lanes.begin(), reduction.lanes.end(),
                                  std::back_inserter(odd));
    for (LaneId lane : odd) {
      const bool lacks = std::binary_search(reduction.lanes.begin(), reduction.lanes.end(), lane);
      state.fault(fmt::format("lane {}", lane.value),
                  fmt::format("{} the row {}, in which {}", lacks ? "lacks" : "has", named(state, reduction),
                              lacks ? "the other lanes wait for it" : "it has no part"));
    }
  }
  check_pools_are_reduced(state);
  if (state.faults.empty()) check_one_order(state, rows);
}

}  // namespace nestor::scheduler::verification
