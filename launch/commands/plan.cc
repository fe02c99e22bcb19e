#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/commands/plan_output.h>
#include <nestor/launch/commands/plan_request.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::launch {
namespace {

struct PlanOptions {
  std::string workload, policy = "nested", format, output;
  std::optional<std::int32_t> extra_warmup;
  bool may_recompute = false;
  std::vector<std::string> caps;
};

/// "4", for every pool, or "vision=4": as if the workload's file had it.
void apply_cap(scheduler::Workload& workload, std::string_view text) {
  const auto equals = text.find('=');
  const std::string_view name = equals == text.npos ? "" : text.substr(0, equals);
  const std::string_view number = equals == text.npos ? text : text.substr(equals + 1);
  std::int32_t cap = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), cap);
  if (error != std::errc() || end != number.data() + number.size() || cap < 1)
    throw InputError("--in-flight-cap", "'" + std::string(text) + "' is no cap", "N or POOL=N, N at least 1");
  bool any = equals == text.npos;
  for (scheduler::PoolWorkload& pool : workload.pools) {
    if (equals != text.npos && pool.name != name) continue;
    pool.in_flight_cap = cap;
    any = true;
  }
  if (!any) throw InputError("--in-flight-cap", "the workload has no pool '" + std::string(name) + "'");
}

/// A good workload that does not fit is failed work, not bad input.
scheduler::Plan within_memory(const scheduler::Workload& workload, const PlanOptions& options) {
  try {
    return plan_by(workload, options.policy, options.extra_warmup, true, options.may_recompute);
  } catch (const scheduler::MemoryError& error) {
    std::string what = error.what();
    throw WorkError(options.workload + ":" + error.where(), what.substr(error.where().size() + 2));
  }
}

int run(const PlanOptions& options) {
  auto format = plan_format(options.format, options.output);
  auto workload = scheduler::read_workload(read_text(options.workload), options.workload);
  for (const std::string& cap : options.caps) apply_cap(workload, cap);
  auto plan = within_memory(workload, options);
  // A policy of ours that fails its own proof is a defect, and the user must not run the plan.
  require_sound(plan, scheduler::Transport::single, options.workload);
  write_output(options.output, render_plan(plan, format, std::filesystem::path(options.workload).stem().string()));
  return 0;
}

}  // namespace

void add_plan(CLI::App& program, Session& session) {
  auto options = std::make_shared<PlanOptions>();
  auto command = program.add_subcommand("plan", "Make, verify and time a plan for a workload");
  command->add_option("workload", options->workload, "nestor.workload/1 file, or - for standard input")->required();
  command->add_option("--policy", options->policy, policy_help())->capture_default_str();
  command->add_option("--format", options->format, plan_formats() + "; default: by the output's ending, else text");
  command->add_option("-o,--output", options->output, "Write here instead of to standard output");
  command->add_option("--extra-warmup", options->extra_warmup, "Fix the extra warm-up forwards instead of searching");
  command
      ->add_option("--in-flight-cap", options->caps,
                   "N or POOL=N: activations that a pool's member may hold under nested and filled; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--may-recompute", options->may_recompute,
                    "Where memory.bytes_per_lane is broken otherwise, modules run their forward again");
  command->footer(
      "Example:\n  nestor plan examples/workloads/vision.yaml --policy nested\n"
      "  nestor plan examples/workloads/vision.yaml -o plan.html\n"
      "  nestor plan examples/workloads/vision.yaml --policy examples/policies/all_forwards_first.yaml");
  command->callback([options, &session] { session.action = [options] { return run(*options); }; });
}

}  // namespace nestor::launch
