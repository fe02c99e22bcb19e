#pragma once
/// Helpers of the verifier's tests: plans to break, a table that can be edited, and a reference for hangs.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <nestor/scheduler/completion.h>
#include <nestor/scheduler/dependencies.h>
#include <nestor/scheduler/scheduler.h>

namespace nestor::scheduler::testing {

using Rows = std::vector<std::vector<Operator>>;

inline Rows rows_of(const Plan& plan) {
  Rows rows;
  for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane) {
    const auto row = plan.table.row(LaneId{lane});
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

inline void put_rows(Plan& plan, const Rows& rows) {
  plan.table.operators.clear();
  plan.table.lane_begin.assign(1, 0);
  for (const auto& lane : rows) {
    plan.table.operators.insert(plan.table.operators.end(), lane.begin(), lane.end());
    plan.table.lane_begin.push_back(static_cast<std::uint32_t>(plan.table.operators.size()));
  }
}

/// Edge, direction and microbatch: what a send and its recv share.
using TransferKey = std::tuple<int, int, int, int, int, int>;
inline TransferKey key_of(const Operator& op) {
  return {op.module, op.stage, op.to_module, op.to_stage, static_cast<int>(op.direction), op.microbatch};
}

/// The queue model in its plainest form, quadratic and sharing nothing with the verifier: true where everything ends.
inline bool runs_through(const Plan& plan, Transport transport) {
  using Item = std::pair<bool, TransferKey>;  // is it a send, and which
  const Dependencies dependencies(plan.workload);
  const Rows rows = rows_of(plan);
  std::vector<std::size_t> position(rows.size(), 0);
  std::map<std::tuple<int, int, int, TransferKey>, std::vector<Item>> queues;
  std::map<Item, std::tuple<int, int, int, TransferKey>> at;
  std::set<Item> ended;
  auto queue_of = [&](int lane, const Operator& op) -> std::tuple<int, int, int, TransferKey> {
    const int send = op.kind == OpKind::send;
    switch (transport) {
      case Transport::single:
        return {lane, -1, -1, {}};
      case Transport::pair:
        return {lane, op.peer, -1, {}};
      case Transport::edge:
        return {lane, op.peer, send, {}};
      case Transport::buffered:
        break;
    }
    return {lane, op.peer, send, key_of(op)};
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t lane = 0; lane < rows.size(); ++lane)
      for (; position[lane] < rows[lane].size(); ++position[lane], moved = true) {
        const Operator& op = rows[lane][position[lane]];
        if (op.is_transfer()) {
          const Item item{op.kind == OpKind::send, key_of(op)};
          at[item] = queue_of(static_cast<int>(lane), op);
          queues[at[item]].push_back(item);
          continue;
        }
        bool ready = true;
        Operator whole = op;
        if (op.kind == OpKind::backward_input) whole.kind = OpKind::backward;
        const OperatorId id = dependencies.find(whole);
        if (id.valid())
          for (OperatorId need : dependencies.needs(id)) {
            if (dependencies.lane(need) == dependencies.lane(id)) continue;
            const Operator from = dependencies.row(need);
            ready &= ended.contains({false, TransferKey{from.module, from.stage, op.module, op.stage,
                                                        from.kind == OpKind::backward, op.microbatch}});
          }
        if (!ready) break;
      }
    for (auto& [name, queue] : queues) {
      if (queue.empty()) continue;
      const Item item = queue.front(), mate{!item.first, item.second};
      bool ends = false;
      if (transport == Transport::buffered) {
        ends = item.first || ended.contains(mate);
        if (ends) ended.insert(item);
      } else if (at.contains(mate) && !queues[at[mate]].empty() && queues[at[mate]].front() == mate) {
        ends = true;
        ended.insert(item);
        ended.insert(mate);
        auto& other = queues[at[mate]];
        other.erase(other.begin());
      }
      if (ends) {
        queue.erase(queue.begin());
        moved = true;
      }
    }
  }
  for (std::size_t lane = 0; lane < rows.size(); ++lane)
    if (position[lane] < rows[lane].size()) return false;
  for (const auto& [name, queue] : queues)
    if (!queue.empty()) return false;
  return true;
}

/// Shapes that between them have everything a plan can have.
inline Workload shape(const std::string& name) {
  const bool chunks = name == "chunks" || name == "two_lanes";
  Workload w = make_workload(name == "two_lanes"     ? 2
                             : name == "one_lane"    ? 1
                             : name == "own_devices" ? 3
                                                     : 4,
                             chunks ? 2 : 1,
                             name == "ragged" ? 7
                             : name == "few"  ? 2
                                              : 8,
                             1, 2);
  if (name == "text") return w;
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1.5, 3));
  if (name == "two_encoders" || name == "everything") {
    w.pools.push_back(make_pool(w, "audio", PoolKind::encoder, 0.5, 1.25));
    w.pools.back().lanes = {LaneId{1}, LaneId{2}};
    for (std::size_t m = 0; m < w.pools.back().owner.size(); ++m) w.pools.back().owner[m] = static_cast<int>(m % 2);
  }
  if (name != "chunks" && name != "two_encoders") w.pools.push_back(make_pool(w, "image", PoolKind::generator, 2, 4));
  if (name == "everything") w.pools.back().inputs = {kLlm, ModuleId{1}};
  if (name == "everything") w.pools[0].absent[3] = w.pools[2].absent[3] = w.pools[1].absent[5] = 1;
  if (name == "frozen") w.llm.trainable = w.pools[0].trainable = false;
  if (name == "own_devices") {
    w.pools[0].lanes = {LaneId{3}, LaneId{4}};
    for (std::size_t m = 0; m < w.pools[0].owner.size(); ++m) w.pools[0].owner[m] = static_cast<int>(m % 2);
  }
  if (name == "uneven") {
    w.llm.forward = {1, 2, 1.5, 0.75};
    w.llm.backward = {2, 4.5, 2.75, 1};
    w.transfer_latency = 0.125;
    w.transfer_bytes_per_second = 1024;
    w.llm.message_bytes = 64;
    w.pools[0].message_bytes = 256;
    w.pools[1].message_bytes = 128;
  }
  return w;
}
inline const std::vector<std::string>& shapes() {
  static const std::vector<std::string> names{"text",   "chunks", "two_lanes",   "one_lane",     "ragged",     "few",
                                              "uneven", "frozen", "own_devices", "two_encoders", "everything", "plain"};
  return names;
}

inline Plan plan_of(const Workload& workload, std::string_view policy) {
  PlanRequest request;
  request.policy = policy;
  return make_plan(workload, request);
}

/// A sound plan whose backwards are split, weight halves a few rows behind; with `recompute` also recomputation rows.
inline Plan split_plan(const std::string& name, bool recompute) {
  Plan plan = plan_of(shape(name), "nested");
  if (recompute) {
    plan.workload.llm.recompute = true;
    for (auto& pool : plan.workload.pools) pool.recompute = true;
  }
  Rows rows;
  for (const auto& lane : rows_of(plan)) {
    std::vector<Operator> out, late;
    for (Operator op : lane) {
      if (!op.is_compute()) continue;
      op.start = op.end = 0;
      if (op.kind == OpKind::backward) {
        if (recompute) {
          out.push_back(op);
          out.back().kind = OpKind::recompute;
        }
        out.push_back(op);
        out.back().kind = OpKind::backward_input;
        late.push_back(op);
        late.back().kind = OpKind::backward_weight;
      } else {
        out.push_back(op);
      }
      if (late.size() > 2) {
        out.push_back(late.front());
        late.erase(late.begin());
      }
    }
    out.insert(out.end(), late.begin(), late.end());
    rows.push_back(out);
  }
  put_rows(plan, rows);
  plan.table.reductions.clear();
  complete(plan);
  return plan;
}

}  // namespace nestor::scheduler::testing
