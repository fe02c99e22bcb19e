#include <algorithm>
#include <string>

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
  const Dependencies d(w);
  const LaneOrders orders = lane_orders(d, plan.table);
  const Times times = earliest_times(d, orders);
  if (!times.complete(orders)) throw Error("lanes", "the lane orders deadlock", "verify names the cycle");

  Simulation result;
  result.makespan = times.makespan;
  result.in_flight = peak_in_flight(w, d, orders, orders.lanes());
  result.lanes.resize(orders.lanes());
  std::int32_t computing = 0;
  for (std::int32_t lane = 0; lane < orders.lanes(); ++lane) {
    LaneReport& report = result.lanes[lane];
    Level<std::int64_t> bytes;
    for (const OperatorId op : orders.lane(LaneId{lane})) {
      report.busy += d.cost(op);
      const ModuleId module = d.module(op);
      const std::int64_t stash = module == kLlm ? w.llm.stash_bytes : w.pool(module).stash_bytes;
      if (d.is_backward(op)) {
        bytes.add(-stash);
      } else if (d.exists(d.backward_of(op))) {
        bytes.add(stash);
      }
    }
    report.peak_bytes = bytes.peak;
    report.over_memory = w.memory_bytes_per_lane > 0 && bytes.peak > w.memory_bytes_per_lane;
    report.utilisation = times.makespan > 0 ? report.busy / times.makespan : 0;
    result.work_bound = std::max(result.work_bound, report.busy);
    if (!orders.lane(LaneId{lane}).empty()) {
      ++computing;
      result.utilisation += report.utilisation;
    }
  }
  if (computing > 0) result.utilisation /= computing;
  result.bubble = 1 - result.utilisation;
  for (const Operator& op : plan.table.operators) {
    if (op.kind != OpKind::send) continue;
    ++result.transfers;
    result.transfer_bytes += d.message_bytes(ModuleId{op.module}, ModuleId{op.to_module});
  }
  return result;
}

}  // namespace nestor::scheduler
