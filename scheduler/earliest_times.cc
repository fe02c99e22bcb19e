#include <algorithm>

#include <nestor/scheduler/earliest_times.h>

namespace nestor::scheduler {
namespace {

class Pass {
 public:
  Pass(const Dependencies& dependencies, const LaneOrders& orders, const TimingOptions& options)
      : d_(dependencies),
        orders_(orders),
        options_(options),
        llm_size_(2 * d_.microbatches() * d_.stages()),
        cursor_(orders.lane_begin.begin(), orders.lane_begin.end() - 1),
        free_(orders.lanes(), 0.0),
        first_waiter_(d_.size(), -1),
        next_waiter_(orders.lanes(), -1) {
    times_.start.assign(d_.size(), 0.0);
    times_.end.assign(d_.size(), -1.0);
    times_.rank.assign(d_.size(), 0);
  }

  Times run() {
    for (std::int32_t lane = orders_.lanes() - 1; lane >= 0; --lane) runnable_.push_back(lane);
    while (!runnable_.empty()) {
      const std::int32_t lane = runnable_.back();
      runnable_.pop_back();
      advance(lane);
    }
    return std::move(times_);
  }

 private:
  /// Runs the lane as far as it goes.
  void advance(std::int32_t lane) {
    const std::uint32_t end = orders_.lane_begin[lane + 1];
    for (; cursor_[lane] < end; ++cursor_[lane]) {
      const OperatorId op = orders_.operators[cursor_[lane]];
      double start = free_[lane];
      OperatorId missing;
      for (const OperatorId need : d_.needs(op)) {
        if (options_.llm_only && need.value >= llm_size_) continue;
        if (times_.end[need.index()] < 0) {
          missing = need;
          break;
        }
        start = std::max(start, times_.end[need.index()] + d_.transfer_seconds(need, op) - d_.recompute(op));
      }
      if (!missing.valid() && !options_.gate.empty()) missing = wait_for_gate(op, start);
      if (missing.valid()) {
        next_waiter_[lane] = first_waiter_[missing.index()];
        first_waiter_[missing.index()] = lane;
        return;
      }
      finish(op, lane, start);
    }
  }

  /// Moves `start` behind the gate of a last-stage backward; the forward that it waits for, if that has not run.
  OperatorId wait_for_gate(OperatorId op, double& start) const {
    if (op.value >= llm_size_ || op.value < llm_size_ / 2 || op.value % d_.stages() != d_.stages() - 1) return {};
    const std::int32_t gate = options_.gate[d_.microbatch(op)];
    if (gate < 0) return {};
    const OperatorId forward = d_.forward(kLlm, gate, d_.stages() - 1);
    if (times_.end[forward.index()] < 0) return forward;
    start = std::max(start, times_.end[forward.index()]);
    return {};
  }

  void finish(OperatorId op, std::int32_t lane, double start) {
    const double end = start + d_.cost(op);
    times_.start[op.index()] = start;
    times_.end[op.index()] = end;
    times_.rank[op.index()] = static_cast<std::uint32_t>(times_.ran++);
    times_.makespan = std::max(times_.makespan, end);
    free_[lane] = end;
    for (std::int32_t waiter = first_waiter_[op.index()]; waiter >= 0; waiter = next_waiter_[waiter]) {
      runnable_.push_back(waiter);
    }
  }

  const Dependencies& d_;
  const LaneOrders& orders_;
  const TimingOptions& options_;
  const std::int32_t llm_size_;
  Times times_;
  std::vector<std::uint32_t> cursor_;
  std::vector<double> free_;
  std::vector<std::int32_t> first_waiter_;  ///< by operator: a list of the lanes that wait for it
  std::vector<std::int32_t> next_waiter_;   ///< by lane
  std::vector<std::int32_t> runnable_;
};

}  // namespace

Times earliest_times(const Dependencies& dependencies, const LaneOrders& orders, const TimingOptions& options) {
  return Pass(dependencies, orders, options).run();
}

}  // namespace nestor::scheduler
