#include <algorithm>
#include <cmath>

#include <nestor/actors/measured_costs.h>

namespace nestor::actors {
namespace {

constexpr double kNoticeable = 0.2;  ///< relative change of a cost that is worth another plan

bool time_to_look(std::int64_t steps) {
  return steps == 3 || steps == 10 || steps == 30 || steps % 50 == 0;
}

}  // namespace

double MeasuredCosts::Window::median() const {
  auto sorted = seconds;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(count, kKept));
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

void MeasuredCosts::add(const LanePlan& plan, const LaneReport& report) {
  const std::size_t places = static_cast<std::size_t>(plan.model_stages) + plan.pools.size();
  forward_.resize(places);
  backward_.resize(places);
  for (std::size_t i = 0; i < plan.row.size() && i < report.times.size(); ++i) {
    const scheduler::Operator& op = plan.row[i];
    const bool forward = op.kind == scheduler::OpKind::forward;
    if (!forward && op.kind != scheduler::OpKind::backward) continue;
    const auto place = static_cast<std::size_t>(op.module == 0 ? op.stage : plan.model_stages + op.module - 1);
    const OpTime& time = report.times[i];
    (forward ? forward_ : backward_)[place].add(1e-9 * static_cast<double>(time.end_ns - time.start_ns - time.wait_ns));
  }
}

std::optional<StageCosts> MeasuredCosts::step_done(const StageCosts& costs) {
  if (!time_to_look(++steps_)) return std::nullopt;
  double measured = 0, expected = 0;
  auto gather = [&](const std::vector<Window>& windows, const std::vector<double>& old) {
    for (std::size_t p = 0; p < windows.size() && p < old.size(); ++p) {
      if (windows[p].count == 0) continue;
      measured += windows[p].median();
      expected += old[p];
    }
  };
  gather(forward_, costs.forward);
  gather(backward_, costs.backward);
  if (!(measured > 0) || !(expected > 0)) return std::nullopt;
  bool changed = false;
  auto renew = [&](const std::vector<Window>& windows, std::vector<double>& values) {
    for (std::size_t p = 0; p < values.size(); ++p) {
      const double scaled = values[p] * measured / expected;
      const bool known = p < windows.size() && windows[p].count > 0;
      const double value = known ? std::max(windows[p].median(), 1e-9) : scaled;
      changed |= std::abs(value - scaled) > kNoticeable * scaled;
      values[p] = value;
    }
  };
  StageCosts next = costs;
  renew(forward_, next.forward);
  renew(backward_, next.backward);
  if (!changed) return std::nullopt;
  return next;
}

}  // namespace nestor::actors
