#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/commands/plan_output.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::launch {
namespace {

struct VerifyOptions {
  std::string plan, transport = "single", format = "text";
};

int run(const VerifyOptions& options) {
  if (options.format != "text" && options.format != "json")
    throw InputError("--format", "there is no format \"" + one_line(options.format, 40) + "\"", "text or json");
  auto transport = scheduler::parse_transport(options.transport);
  auto plan = scheduler::read_plan(read_text(options.plan), options.plan);
  auto verdict = scheduler::verify(plan, transport);

  if (options.format == "json") {
    nlohmann::ordered_json json{{"format", "nestor.verdict/1"},
                                {"plan", options.plan},
                                {"transport", options.transport},
                                {"sound", verdict.sound()},
                                {"faults", nlohmann::ordered_json::array()}};
    for (const auto& fault : verdict.faults) json["faults"].push_back({{"where", fault.where}, {"what", fault.what}});
    write_output("", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (verdict.sound()) {
    write_output("", fmt::format("sound under transport {}: {} operators on {} lanes, policy {}, digest {:016x}\n",
                                 options.transport, plan.table.operators.size(), plan.table.lanes(), plan.policy,
                                 scheduler::digest(plan.table)));
  } else {
    std::string text = fmt::format("unsound under transport {}:\n", options.transport);
    for (const auto& fault : verdict.faults) text += fmt::format("  {}: {}\n", fault.where, fault.what);
    write_output("", text);
  }
  require_sound(verdict, transport, options.plan);
  return 0;
}

}  // namespace

void add_verify(CLI::App& program, Session& session) {
  auto options = std::make_shared<VerifyOptions>();
  auto command = program.add_subcommand("verify", "Check a plan file: exit 0 when sound, 1 when not");
  command->add_option("plan", options->plan, "nestor.plan/1 file, or - for standard input")->required();
  command->add_option("--transport", options->transport, "buffered, edge, pair or single (the strictest)")
      ->capture_default_str();
  command->add_option("--format", options->format, "text or json")->capture_default_str();
  command->footer(
      "Example:\n  nestor plan examples/workloads/vision.yaml -o plan.json\n"
      "  nestor verify plan.json --transport pair");
  command->callback([options, &session] { session.action = [options] { return run(*options); }; });
}

}  // namespace nestor::launch
