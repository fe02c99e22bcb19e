#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include <nestor/scheduler/ids.h>
#include <nestor/scheduler/timeline.h>

namespace nestor::scheduler {
namespace {

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

/// A compute row's place in flat tables: pools count as stage 0.
std::uint64_t place(std::int32_t module, std::int32_t stage, std::int32_t microbatch) {
  return (static_cast<std::uint64_t>(module) << 48) ^
         (static_cast<std::uint64_t>(static_cast<std::uint32_t>(std::max(stage, 0))) << 28) ^
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(microbatch));
}

std::uint64_t produced_by(const Operator& op, bool gradient) {
  return place(op.module, op.stage, op.microbatch) ^ (gradient ? std::uint64_t{1} << 63 : 0);
}

}  // namespace

Timeline planned_timeline(const Plan& plan) {
  Timeline timeline;
  timeline.source = "planned";
  timeline.module_names.emplace_back("llm");
  for (const auto& pool : plan.workload.pools) timeline.module_names.push_back(pool.name);

  std::unordered_map<std::uint64_t, double> ready;  // when what a transfer carries exists
  for (const Operator& op : plan.table.operators) {
    if (op.kind == OpKind::forward) ready[produced_by(op, false)] = op.end;
    if (op.kind == OpKind::backward || op.kind == OpKind::backward_input) ready[produced_by(op, true)] = op.end;
  }
  timeline.rows.reserve(plan.table.operators.size());
  for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane) {
    timeline.lane_names.push_back("lane" + std::to_string(lane));
    const auto first = timeline.rows.size();
    double clock = 0;
    for (const Operator& op : plan.table.row(LaneId{lane})) {
      TimelineRow row{lane, op, 0, 0, 0, 0};
      double start = op.start, end = op.end;
      if (op.is_compute()) {
        clock = std::max(clock, op.end);
      } else if (op.is_transfer()) {
        if (end <= 0) {
          const auto found = ready.find(produced_by(op, op.direction == Direction::gradient));
          start = end = found == ready.end() ? clock : found->second;
        }
        // An activation has the size of its producer's message, a gradient that of the activation it answers.
        const auto bytes_of = [&](std::int32_t module) {
          return module == 0 ? plan.workload.llm.message_bytes : plan.workload.pool(ModuleId{module}).message_bytes;
        };
        row.bytes = bytes_of(op.direction == Direction::activation ? op.module : op.to_module);
      } else {
        start = end = std::max(op.end, clock);
      }
      row.start_ns = nanoseconds(start);
      row.end_ns = nanoseconds(end);
      row.op.start = row.op.end = 0;
      timeline.rows.push_back(row);
    }
    std::stable_sort(timeline.rows.begin() + static_cast<std::ptrdiff_t>(first), timeline.rows.end(),
                     [](const TimelineRow& a, const TimelineRow& b) { return a.start_ns < b.start_ns; });
  }
  return timeline;
}

std::vector<std::vector<std::vector<InFlightPoint>>> in_flight_over_time(const Timeline& timeline) {
  struct Event {
    std::int32_t lane, module;
    std::int64_t at_ns;
    double change;
  };
  std::unordered_map<std::uint64_t, bool> has_backward;
  std::int32_t lanes = static_cast<std::int32_t>(timeline.lane_names.size());
  std::size_t modules = timeline.module_names.size();
  for (const TimelineRow& row : timeline.rows) {
    lanes = std::max(lanes, row.lane + 1);
    modules = std::max(modules, static_cast<std::size_t>(row.op.module) + 1);
    if (row.op.kind == OpKind::backward || row.op.kind == OpKind::backward_weight)
      has_backward[produced_by(row.op, false)] = true;
  }
  std::vector<std::vector<std::int32_t>> stages(static_cast<std::size_t>(lanes));
  for (const TimelineRow& row : timeline.rows)
    if (row.op.is_compute() && row.op.module == 0) {
      auto& held = stages[static_cast<std::size_t>(row.lane)];
      if (std::find(held.begin(), held.end(), row.op.stage) == held.end()) held.push_back(row.op.stage);
    }
  std::vector<Event> events;
  for (const TimelineRow& row : timeline.rows) {
    const bool forward = row.op.kind == OpKind::forward;
    const bool frees = row.op.kind == OpKind::backward || row.op.kind == OpKind::backward_weight;
    if ((!forward && !frees) || !has_backward.contains(produced_by(row.op, false))) continue;
    const auto held = stages[static_cast<std::size_t>(row.lane)].size();
    const double unit = row.op.module == 0 && held > 1 ? 1.0 / static_cast<double>(held) : 1.0;
    events.push_back({row.lane, row.op.module, forward ? row.start_ns : row.end_ns, forward ? unit : -unit});
  }
  // At one instant what is freed goes first: the lane ran the backward before the forward that starts then.
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.lane, a.module, a.at_ns, a.change) < std::tuple(b.lane, b.module, b.at_ns, b.change);
  });
  std::vector<std::vector<std::vector<InFlightPoint>>> curves(static_cast<std::size_t>(lanes),
                                                              std::vector<std::vector<InFlightPoint>>(modules));
  std::int32_t lane = -1, module = -1;
  double level = 0;
  for (const Event& event : events) {
    if (event.lane != lane || event.module != module) level = 0, lane = event.lane, module = event.module;
    level += event.change;
    if (std::abs(level) < 1e-9) level = 0;
    curves[static_cast<std::size_t>(lane)][static_cast<std::size_t>(module)].push_back({event.at_ns, level});
  }
  return curves;
}

}  // namespace nestor::scheduler
