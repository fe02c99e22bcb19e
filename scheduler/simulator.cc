#include <algorithm>
#include <string>

#include <nestor/scheduler/memory_series.h>
#include <nestor/scheduler/simulator.h>

namespace nestor::scheduler {
namespace {

/// Running and peak value of what forwards add and backwards take away.
template <class Number>
struct Level {
  Number now = 0;
  Number peak = 0;
  void add(Number n) { peak = std::max(peak, now += n); }
};

}  // namespace

std::vector<std::vector<double>> peak_in_flight(const Workload& workload, const Dependencies& d,
                                                const LaneOrders& orders, std::int32_t lanes) {
  std::vector<std::vector<double>> peaks(d.modules(), std::vector<double>(lanes, 0.0));
  std::vector<Level<std::int64_t>> level(d.modules());
  for (std::int32_t lane = 0; lane < orders.lanes(); ++lane) {
    std::fill(level.begin(), level.end(), Level<std::int64_t>{});
    for (const OperatorId op : orders.lane(LaneId{lane})) {
      const std::size_t module = d.module(op).index();
      if (d.is_backward(op)) {
        level[module].add(-1);
      } else if (d.exists(d.backward_of(op))) {
        level[module].add(1);
      }
    }
    for (std::size_t module = 0; module < level.size(); ++module) {
      const auto peak = static_cast<double>(level[module].peak);
      peaks[module][lane] = module == kLlm.index() ? peak / workload.chunks : peak;
    }
  }
  return peaks;
}

LaneOrders lane_orders(const Dependencies& d, const OperatorTable& table) {
  LaneOrders orders;
  orders.operators.reserve(d.count());
  std::vector<std::uint8_t> seen(d.size(), 0);
  for (std::int32_t lane = 0; lane < table.lanes(); ++lane) {
    const auto row = table.row(LaneId{lane});
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!row[i].is_compute()) continue;
      const OperatorId op = d.find(row[i]);
      if (!op.valid() || d.lane(op).value != lane || seen[op.index()]++) {
        throw Error(
            "lanes[" + std::to_string(lane) + "].ops[" + std::to_string(i) + "]",
            op.valid() ? "is on another lane than its module's, or stands twice" : "is no operator of the workload",
            "verify names every fault");
      }
      orders.operators.push_back(op);
    }
    orders.lane_begin.push_back(static_cast<std::uint32_t>(orders.operators.size()));
  }
  if (static_cast<std::int32_t>(orders.operators.size()) != d.count()) {
    throw Error("lanes",
                std::to_string(d.count() - static_cast<std::int64_t>(orders.operators.size())) +
                    " operators of the workload are missing",
                "verify names them");
  }
  return orders;
}

Simulation simulate(const Plan& plan) {
  validate(plan.workload, "workload");
  const Workload& w = plan.workload;
  std::vector<Fault> faults;
  verification::State state(plan, faults);
  run_orders(state);

  Simulation result;
  result.makespan = state.earliest_makespan;
  result.in_flight = verification::peaks(state);
  result.lanes.resize(plan.table.lanes());
  auto series = bytes_over_time(state);
  std::int32_t computing = 0;
  for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane) {
    LaneReport& report = result.lanes[lane];
    bool computes = false;
    for (std::uint32_t i = plan.table.lane_begin[lane]; i < plan.table.lane_begin[lane + 1]; ++i) {
      if (!state.row(i).is_compute()) continue;
      computes = true;
      report.busy += state.seconds(i);
    }
    report.bytes = std::move(series[lane]);
    for (const BytesPoint& point : report.bytes) {
      report.peak_bytes = std::max(report.peak_bytes, point.bytes);
      if (w.memory_bytes_per_lane > 0 && point.bytes > w.memory_bytes_per_lane && !report.over_memory) {
        report.over_memory = true;
        report.over_at = point.at;
      }
    }
    report.utilisation = result.makespan > 0 ? report.busy / result.makespan : 0;
    result.work_bound = std::max(result.work_bound, report.busy);
    if (computes) {
      ++computing;
      result.utilisation += report.utilisation;
    }
  }
  if (computing > 0) result.utilisation /= computing;
  result.bubble = 1 - result.utilisation;
  for (const Operator& op : plan.table.operators) {
    if (op.kind != OpKind::send) continue;
    ++result.transfers;
    result.transfer_bytes += state.dependencies.message_bytes(ModuleId{op.module}, ModuleId{op.to_module});
  }
  return result;
}

}  // namespace nestor::scheduler
