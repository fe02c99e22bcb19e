#pragma once
/// Shared by the verifier's own files; not a public header.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <nestor/scheduler/dependencies.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::scheduler::verification {

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// What the checks share. Rows are numbered through the whole table (`OperatorTable::operators`), operators as in
/// `Dependencies`, dependencies by their place in its flat array: three dense numberings, so that every look-up is an
/// index and the whole proof is linear.
struct State {
  State(const Plan& plan, std::vector<Fault>& faults);

  const Plan& plan;
  const Dependencies dependencies;
  std::vector<Fault>& faults;

  std::vector<std::int32_t> lane_of_row;  ///< by row
  std::vector<std::int32_t> op_of_row;    ///< by row: compute rows their operator, sends the producer, recvs the reader
  std::vector<std::uint32_t> row_of_op;   ///< by operator: forward, backward or backward_input row
  std::vector<std::uint32_t> weight_row;  ///< by operator: backward_weight; empty where no row is one
  std::vector<std::uint32_t> recompute_row;  ///< by the backward's operator; empty where no row is one
  std::vector<std::uint32_t> mate;           ///< by row: the other end of a transfer
  std::vector<double> earliest_end;     ///< by operator: when it could end at the earliest in these orders, seconds
  std::vector<double> earliest_start;   ///< by row (compute), seconds
  std::vector<std::uint32_t> sequence;  ///< compute rows in an order that keeps every need and every lane's order
  std::vector<double> stated_end;       ///< by operator: the plan's own end of it, seconds
  double earliest_makespan = 0;
  bool has_split = false;
  bool has_recompute = false;
  double tolerance = 0;  ///< seconds by which two stated times may differ and mean the same

  std::size_t edge_of(OperatorId op) const {
    return static_cast<std::size_t>(dependencies.needs(op).data() - dependencies.needs(OperatorId{0}).data());
  }
  bool crosses(OperatorId from, OperatorId to) const { return dependencies.lane(from) != dependencies.lane(to); }
  const Operator& row(std::uint32_t i) const { return plan.table.operators[i]; }
  /// What a compute row must take. The halves of a backward share its cost as the plan states them.
  double seconds(std::uint32_t i) const {
    const Operator& op = row(i);
    const OperatorId id{op_of_row[i]};
    if (op.kind == OpKind::forward || op.kind == OpKind::backward)
      return dependencies.cost(id) - dependencies.recompute(id);
    if (op.kind != OpKind::recompute) return op.end - op.start;
    return dependencies.cost(dependencies.forward(dependencies.module(id), op.microbatch, op.stage));
  }
  std::string place(std::uint32_t row) const;        ///< "lane 2, operator 14 (...)"
  std::string named(OperatorId op) const;            ///< "backward llm stage 3 microbatch 5"
  bool full() const { return faults.size() >= 20; }  ///< enough said
  void fault(std::string where, std::string what) {
    if (!full()) faults.push_back({std::move(where), std::move(what)});
  }
};

/// Visits all rows, each lane's in order, a few hundred of every lane in turn: what lanes have to do with each other
/// lies close in time, and so stays in the cache. `visit(lane, row)`.
template <class Visit>
void each_row(const OperatorTable& table, Visit visit) {
  constexpr std::uint32_t kBlock = 256;
  const std::size_t lanes = table.lane_begin.size() - 1;
  bool more = true;
  for (std::uint32_t offset = 0; more; offset += kBlock) {
    more = false;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::uint32_t begin = table.lane_begin[lane], size = table.lane_begin[lane + 1] - begin;
      if (offset >= size) continue;
      const std::uint32_t last = begin + std::min(size, offset + kBlock);
      more |= size > offset + kBlock;
      for (std::uint32_t i = begin + offset; i < last; ++i) visit(lane, i);
    }
  }
}

// Each adds its faults; a later one may rely on what the earlier ones proved, so the caller stops at the first that
// finds something.
void check_rows(State& state);                            ///< every operator once, on its lane; nothing dangles
void check_ends(State& state);                            ///< reduce and update rows
void check_backbone(State& state);                        ///< LLM order of every lane
void check_order(State& state);                           ///< no cycle; halves and recomputation in order
void check_pairs(State& state);                           ///< sends and receives
void check_transport(State& state, Transport transport);  ///< no hang
void check_times(State& state);                           ///< stated times and makespan
/// Peak activations in flight as `Plan::in_flight` states them, for sound rows.
std::vector<std::vector<double>> peaks(const State& state);
void check_peaks(State& state);  ///< stated peaks and caps

}  // namespace nestor::scheduler::verification
