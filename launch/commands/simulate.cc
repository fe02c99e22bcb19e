#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/commands/plan_output.h>
#include <nestor/launch/commands/plan_request.h>
#include <nestor/launch/commands/table.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/simulator.h>

namespace nestor::launch {
namespace {

struct SimulateOptions {
  std::string workload, format = "text";
  std::vector<std::string> policies;
};

struct Result {
  scheduler::Plan plan;
  scheduler::Simulation simulation;
};

std::string list(const std::vector<double>& values) {
  // "3 3 3 3" is "3": what most lanes alike have is one number.
  if (!values.empty() && std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; }))
    return fmt::format("{:.4g}", values[0]);
  std::string text;
  for (double value : values) text += fmt::format("{}{:.4g}", text.empty() ? "" : " ", value);
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

std::int64_t peak_bytes(const scheduler::Simulation& simulation) {
  std::int64_t peak = 0;
  for (const auto& lane : simulation.lanes) peak = std::max(peak, lane.peak_bytes);
  return peak;
}

/// Where and when the memory cap is broken, a line for each policy that breaks it.
std::string broken_caps(const std::vector<Result>& results) {
  std::string text;
  for (const auto& [plan, simulation] : results) {
    const auto& lanes = simulation.lanes;
    auto fullest =
        std::max_element(lanes.begin(), lanes.end(), [](auto& a, auto& b) { return a.peak_bytes < b.peak_bytes; });
    if (fullest == lanes.end() || !fullest->over_memory) continue;
    text += fmt::format("{}: lane {} holds {} at its peak, the cap is {}; broken first at {}\n", plan.policy,
                        fullest - lanes.begin(), bytes_text(fullest->peak_bytes),
                        bytes_text(plan.workload.memory_bytes_per_lane), seconds_text(fullest->over_at));
  }
  return text.empty() ? text : "\n" + text;
}

std::string table(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows{{"policy", "makespan", "bubble", "utilisation", "over bound", "D"}};
  bool with_bytes = std::any_of(results.begin(), results.end(), [](auto& r) { return peak_bytes(r.simulation) > 0; });
  const auto& workload = results[0].plan.workload;
  auto modules = results[0].simulation.in_flight.size();
  for (std::size_t m = 0; m < modules; ++m)
    rows[0].push_back(fmt::format("{} in flight", workload.name(scheduler::ModuleId(static_cast<std::int64_t>(m)))));
  if (with_bytes) rows[0].push_back("peak bytes");
  for (const auto& [plan, simulation] : results) {
    std::vector<std::string> row{
        plan.policy,
        seconds_text(simulation.makespan),
        fmt::format("{:.1f} %", simulation.bubble * 100),
        fmt::format("{:.1f} %", simulation.utilisation * 100),
        simulation.work_bound > 0 ? fmt::format("{:.3f}", simulation.makespan / simulation.work_bound) : "-",
        std::to_string(plan.extra_warmup)};
    for (const auto& lanes : simulation.in_flight) row.push_back(list(lanes));
    if (with_bytes) {
      bool over = std::any_of(simulation.lanes.begin(), simulation.lanes.end(), [](auto& l) { return l.over_memory; });
      row.push_back(fmt::format("{}{}", bytes_text(peak_bytes(simulation)), over ? " (over the cap)" : ""));
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

/// [[seconds, bytes], ...]: what the lane holds from then on. Where nothing has bytes, one point.
nlohmann::ordered_json bytes_over_time(const scheduler::LaneReport& lane) {
  auto points = nlohmann::ordered_json::array();
  for (const auto& point : lane.bytes) points.push_back({point.at, point.bytes});
  return points;
}

nlohmann::ordered_json to_json(const Result& result) {
  const auto& [plan, simulation] = result;
  nlohmann::ordered_json in_flight, lanes = nlohmann::ordered_json::array();
  for (std::size_t m = 0; m < simulation.in_flight.size(); ++m)
    in_flight[std::string(plan.workload.name(scheduler::ModuleId(static_cast<std::int64_t>(m))))] =
        simulation.in_flight[m];
  for (const auto& lane : simulation.lanes)
    lanes.push_back({{"busy", lane.busy},
                     {"utilisation", lane.utilisation},
                     {"peak_bytes", lane.peak_bytes},
                     {"over_memory", lane.over_memory},
                     {"over_at", lane.over_memory ? nlohmann::ordered_json(lane.over_at) : nullptr},
                     {"bytes", bytes_over_time(lane)}});
  return {{"policy", plan.policy},
          {"makespan", simulation.makespan},
          {"bubble", simulation.bubble},
          {"utilisation", simulation.utilisation},
          {"work_bound", simulation.work_bound},
          {"extra_warmup", plan.extra_warmup},
          {"in_flight", in_flight},
          {"peak_bytes", peak_bytes(simulation)},
          {"transfers", simulation.transfers},
          {"transfer_bytes", simulation.transfer_bytes},
          {"lanes", lanes},
          {"digest", fmt::format("{:016x}", scheduler::digest(plan.table))}};
}

/// Within the memory cap where that can be; else as if there were none, and the table says that it is broken.
scheduler::Plan plan_with_or_without_cap(const scheduler::Workload& workload, const std::string& policy) {
  try {
    return plan_by(workload, policy);
  } catch (const scheduler::MemoryError&) {
    return plan_by(workload, policy, {}, false);
  }
}

int run(const SimulateOptions& options) {
  if (options.format != "text" && options.format != "json")
    throw InputError("--format", "there is no format \"" + one_line(options.format, 40) + "\"", "text or json");
  auto workload = scheduler::read_workload(read_text(options.workload), options.workload);
  auto policies = options.policies;
  if (policies.empty())
    for (auto name : scheduler::policy_names()) policies.emplace_back(name);
  std::vector<Result> results;
  for (const auto& policy : policies) {
    auto plan = plan_with_or_without_cap(workload, policy);
    require_sound(plan, scheduler::Transport::single, options.workload);
    auto simulation = scheduler::simulate(plan);
    results.push_back({std::move(plan), std::move(simulation)});
  }
  if (options.format == "text") {
    write_output("", table(results) + broken_caps(results));
  } else {
    nlohmann::ordered_json json{{"format", "nestor.simulation/1"}, {"workload", options.workload}};
    json["policies"] = nlohmann::ordered_json::array();
    for (const auto& result : results) json["policies"].push_back(to_json(result));
    write_output("", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return 0;
}

}  // namespace

void add_simulate(CLI::App& program, Session& session) {
  auto options = std::make_shared<SimulateOptions>();
  auto command =
      program.add_subcommand("simulate", "Makespan, bubble, utilisation and activations in flight, by policy");
  command->add_option("workload", options->workload, "nestor.workload/1 file, or - for standard input")->required();
  command
      ->add_option("--policy", options->policies,
                   "Policies or nestor.policy/1 files, comma-separated; default: all policies")
      ->delimiter(',');
  command->add_option("--format", options->format, "text or json")->capture_default_str();
  command->footer("Example:\n  nestor simulate examples/workloads/vision.yaml --policy coupled,nested");
  command->callback([options, &session] { session.action = [options] { return run(*options); }; });
}

}  // namespace nestor::launch
