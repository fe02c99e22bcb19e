#include <algorithm>

#include <nestor/actors/step_report.h>

namespace nestor::actors {

modules::LossSums total_losses(const std::vector<LaneReport>& reports) {
  modules::LossSums sums;
  for (const LaneReport& report : reports)
    for (const auto& [name, sum] : report.loss_sums) sums[name] += sum;
  return sums;
}

double measured_bubble(const PreparedPlan& prepared, const std::vector<LaneReport>& reports) {
  std::int64_t busy = 0, first = 0, last = 0;
  bool any = false;
  for (std::size_t lane = 0; lane < reports.size(); ++lane) {
    const auto& row = prepared.rows[lane].row;
    for (std::size_t i = 0; i < row.size() && i < reports[lane].times.size(); ++i) {
      if (!row[i].is_compute()) continue;
      const OpTime& time = reports[lane].times[i];
      busy += time.end_ns - time.start_ns - time.wait_ns;
      first = any ? std::min(first, time.start_ns) : time.start_ns;
      last = any ? std::max(last, time.end_ns) : time.end_ns;
      any = true;
    }
  }
  const double whole = static_cast<double>(last - first) * static_cast<double>(reports.size());
  return whole > 0 ? std::max(0.0, 1 - static_cast<double>(busy) / whole) : 0;
}

scheduler::Timeline measured_timeline(const PreparedPlan& prepared, const std::vector<LaneReport>& reports,
                                      std::int64_t step) {
  scheduler::Timeline timeline;
  timeline.step = step;
  timeline.source = "measured";
  timeline.module_names.push_back("llm");
  for (const auto& pool : prepared.plan->workload.pools) timeline.module_names.push_back(pool.name);
  for (std::size_t lane = 0; lane < reports.size(); ++lane) {
    timeline.lane_names.push_back("lane" + std::to_string(lane));
    const auto& row = prepared.rows[lane].row;
    const auto first = static_cast<std::ptrdiff_t>(timeline.rows.size());
    for (std::size_t i = 0; i < row.size() && i < reports[lane].times.size(); ++i) {
      const OpTime& time = reports[lane].times[i];
      timeline.rows.push_back(
          {static_cast<std::int32_t>(lane), row[i], time.start_ns, time.end_ns, time.wait_ns, time.bytes});
    }
    std::stable_sort(timeline.rows.begin() + first, timeline.rows.end(),
                     [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  }
  return timeline;
}

StepReport make_step_report(const modules::Model& model, const modules::StepCounts& counts,
                            const PreparedPlan& prepared, const std::vector<LaneReport>& reports, std::int64_t step,
                            bool trace) {
  const modules::LossMeans means = modules::loss_means(model, counts, total_losses(reports));
  StepReport report;
  report.step = step;
  report.loss = means.total;
  report.losses.insert(means.losses.begin(), means.losses.end());
  for (const LaneReport& lane : reports) {
    if (!lane.updated) continue;
    report.grad_norm = lane.grad_norm;
    report.skipped = lane.update_scale == 0;
  }
  report.tokens = counts.tokens;
  report.samples = counts.samples;
  report.bubble = measured_bubble(prepared, reports);
  for (std::size_t module = 0; module < prepared.plan->workload.pools.size() + 1; ++module) {
    auto& peaks = report.in_flight[std::string(
        prepared.plan->workload.name(scheduler::ModuleId{static_cast<std::int64_t>(module)}))];
    for (const LaneReport& lane : reports) peaks.push_back(module < lane.in_flight.size() ? lane.in_flight[module] : 0);
  }
  if (trace) report.timeline = measured_timeline(prepared, reports, step);
  return report;
}

}  // namespace nestor::actors
