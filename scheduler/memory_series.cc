#include <algorithm>

#include <nestor/scheduler/memory_series.h>

namespace nestor::scheduler {
namespace {

/// Collects changes of what lanes hold.
class Ledger {
 public:
  explicit Ledger(const verification::State& state) : s_(state), d_(state.dependencies) {
    lanes_.resize(static_cast<std::size_t>(state.plan.table.lanes()));
  }

  void add(LaneId lane, double from, double to, std::int64_t bytes) {
    if (bytes == 0 || to < from) return;
    lanes_[lane.index()].push_back({from, bytes});
    lanes_[lane.index()].push_back({to, -bytes});
  }

  /// What a forward keeps until its backward has ended.
  void stash(OperatorId forward) {
    const OperatorId back = d_.backward_of(forward);
    if (!d_.exists(back)) return;
    const ModuleId module = d_.module(forward);
    const Workload& w = s_.plan.workload;
    const std::int64_t all = module == kLlm ? w.llm.stash_bytes : w.pool(module).stash_bytes;
    const LaneId lane = d_.lane(forward);
    const double start = start_of(forward);
    const bool split = s_.has_split && s_.weight_row[back.index()] != verification::kNone;
    const std::uint32_t last = split ? s_.weight_row[back.index()] : s_.row_of_op[back.index()];
    const double end = s_.earliest_start[last] + s_.seconds(last);
    if (!s_.has_recompute || s_.recompute_row[back.index()] == verification::kNone) return add(lane, start, end, all);
    std::int64_t input = 0;
    for (const OperatorId need : d_.needs(forward)) input += d_.message_bytes(d_.module(need), module);
    input = std::min(input, all);
    add(lane, start, end, input);
    add(lane, s_.earliest_start[s_.recompute_row[back.index()]], end, all - input);
  }

  void messages(OperatorId reader) {
    for (const OperatorId need : d_.needs(reader)) {
      if (d_.is_backward(reader) && d_.backward_of(need) == reader && !d_.is_backward(need)) continue;
      const std::int64_t bytes = d_.message_bytes(d_.module(need), d_.module(reader));
      const double made = s_.earliest_end[need.index()];
      add(d_.lane(reader), made, start_of(reader), bytes);
      if (s_.crosses(need, reader)) add(d_.lane(need), made, made + d_.transfer_seconds(need, reader), bytes);
    }
  }

  std::vector<std::vector<BytesPoint>> series() {
    std::vector<std::vector<BytesPoint>> out;
    const auto& resident = s_.plan.workload.resident_bytes;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      auto& changes = lanes_[lane];
      std::sort(changes.begin(), changes.end(),
                [](const Change& a, const Change& b) { return a.at != b.at ? a.at < b.at : a.bytes < b.bytes; });
      std::vector<BytesPoint> points{{0, lane < resident.size() ? resident[lane] : 0}};
      for (const Change& change : changes) {
        if (change.at > points.back().at) points.push_back({change.at, points.back().bytes});
        points.back().bytes += change.bytes;
      }
      const auto same = [](const BytesPoint& a, const BytesPoint& b) { return a.bytes == b.bytes; };
      points.erase(std::unique(points.begin(), points.end(), same), points.end());
      out.push_back(std::move(points));
    }
    return out;
  }

 private:
  struct Change {
    double at;
    std::int64_t bytes;
  };
  double start_of(OperatorId op) const { return s_.earliest_start[s_.row_of_op[op.index()]]; }

  const verification::State& s_;
  const Dependencies& d_;
  std::vector<std::vector<Change>> lanes_;
};

}  // namespace

void run_orders(verification::State& state) {
  verification::check_rows(state);
  if (state.faults.empty()) verification::check_order(state);
  if (!state.faults.empty()) throw Error(state.faults.front().where, state.faults.front().what, "");
}

bool counts_bytes(const Workload& workload) {
  const auto has = [](const auto& module) { return module.stash_bytes > 0 || module.message_bytes > 0; };
  return has(workload.llm) || std::any_of(workload.pools.begin(), workload.pools.end(), has) ||
         std::any_of(workload.resident_bytes.begin(), workload.resident_bytes.end(), [](auto b) { return b > 0; });
}

std::vector<std::vector<BytesPoint>> bytes_over_time(const verification::State& state) {
  Ledger ledger(state);
  if (counts_bytes(state.plan.workload)) {
    for (std::int32_t i = 0; i < state.dependencies.size(); ++i) {
      const OperatorId op{i};
      if (!state.dependencies.exists(op)) continue;
      if (!state.dependencies.is_backward(op)) ledger.stash(op);
      ledger.messages(op);
    }
  }
  return ledger.series();
}

std::vector<std::vector<BytesPoint>> bytes_over_time(const Plan& plan) {
  validate(plan.workload, "workload");
  std::vector<Fault> faults;
  verification::State state(plan, faults);
  run_orders(state);
  return bytes_over_time(state);
}

}  // namespace nestor::scheduler
