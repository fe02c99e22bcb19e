#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include <nestor/launch/commands/plan_output.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/modules/suggest.h>
#include <nestor/scheduler/exchange/torch_csv.h>
#include <nestor/scheduler/render/html.h>
#include <nestor/scheduler/render/text.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/scheduler/timeline.h>

namespace nestor::launch {
namespace {

const std::vector<std::string>& names() {
  static const std::vector<std::string> names{"text", "json", "torch-csv", "trace", "html"};
  return names;
}

std::string peaks(const scheduler::Plan& plan) {
  std::string text;
  for (std::size_t m = 0; m < plan.in_flight.size(); ++m)
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ",
                        plan.workload.name(scheduler::ModuleId(static_cast<std::int64_t>(m))),
                        *std::max_element(plan.in_flight[m].begin(), plan.in_flight[m].end()));
  return text;
}

std::string summary(const scheduler::Plan& plan) {
  const auto& workload = plan.workload;
  auto simulation = scheduler::simulate(plan);
  return fmt::format(
      "policy {}: {} stages x {} chunks, {} microbatches, {} lanes\n"
      "makespan {}, bubble {:.1f} %, busiest lane's work {}{}\n"
      "most microbatches in flight on a lane: {}\n"
      "verified under transport single, digest {:016x}\n",
      plan.policy, workload.stages, workload.chunks, workload.microbatches, plan.table.lanes(),
      seconds_text(plan.makespan), simulation.bubble * 100, seconds_text(simulation.work_bound),
      plan.extra_warmup ? fmt::format(", extra warm-up {}", plan.extra_warmup) : "", peaks(plan),
      scheduler::digest(plan.table));
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds == 0 || seconds >= 1) return fmt::format("{:.6g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} us", seconds * 1e6);
}

std::string plan_formats() {
  return fmt::format("{}", fmt::join(names(), ", "));
}

PlanFormat plan_format(const std::string& name, const std::string& output) {
  if (name.empty()) {
    auto ending = std::filesystem::path(output).extension();
    if (ending == ".csv") return PlanFormat::torch_csv;
    return ending == ".json" ? PlanFormat::json : ending == ".html" ? PlanFormat::html : PlanFormat::text;
  }
  auto found = std::find(names().begin(), names().end(), name);
  if (found == names().end())
    throw InputError("--format", "there is no format \"" + one_line(name, 40) + "\"",
                     modules::did_you_mean(name, names()));
  return static_cast<PlanFormat>(found - names().begin());
}

std::string render_plan(const scheduler::Plan& plan, PlanFormat format, const std::string& title, std::int32_t width) {
  switch (format) {
    case PlanFormat::json:
      return scheduler::write_plan(plan);
    case PlanFormat::torch_csv:
      return scheduler::write_torch_csv(plan, scheduler::CsvDialect::torch, true);
    case PlanFormat::trace:
      return scheduler::write_trace(scheduler::planned_timeline(plan));
    case PlanFormat::html: {
      auto timeline = scheduler::planned_timeline(plan);
      return scheduler::render_html(title + ", " + plan.policy, {&timeline, 1});
    }
    case PlanFormat::text:
      break;
  }
  constexpr std::size_t most_rows = 20'000;  // a grid of more is for no eye
  auto text = summary(plan);
  if (plan.table.operators.size() <= most_rows)
    text.append("\n").append(scheduler::render_text(scheduler::planned_timeline(plan), width));
  return text;
}

void require_sound(const scheduler::Verdict& verdict, scheduler::Transport transport, const std::string& source) {
  if (verdict.sound()) return;
  const auto& fault = verdict.faults.front();
  auto more = verdict.faults.size() - 1;
  throw WorkError(source,
                  fmt::format("unsound under transport {}: {}: {}", scheduler::to_string(transport), fault.where,
                              one_line(fault.what)),
                  more ? fmt::format("and {} more", more) : "");
}

void require_sound(const scheduler::Plan& plan, scheduler::Transport transport, const std::string& source) {
  require_sound(scheduler::verify(plan, transport), transport, source);
}

}  // namespace nestor::launch
