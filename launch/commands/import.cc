#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/commands/plan_output.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/exchange/torch_csv.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::launch {
namespace {

struct ImportOptions {
  std::string table, dialect, transport = "single", output;
  std::vector<std::string> costs;
};

scheduler::CsvCosts read_costs(const std::vector<std::string>& assignments) {
  scheduler::CsvCosts costs;
  for (const auto& text : assignments) {
    std::string where = "--costs " + one_line(text, 40);
    auto equal = text.find('=');
    auto name = text.substr(0, equal);
    double* target = name == "F"   ? &costs.forward
                     : name == "B" ? &costs.backward
                     : name == "I" ? &costs.input
                     : name == "W" ? &costs.weight
                                   : nullptr;
    if (equal == text.npos || !target)
      throw InputError(where, "is not of the form ACTION=SECONDS", "e.g. F=1,B=2,I=1,W=1");
    auto begin = text.data() + equal + 1, end = text.data() + text.size();
    auto [rest, error] = std::from_chars(begin, end, *target);
    if (error != std::errc() || rest != end || !std::isfinite(*target) || *target < 0)
      throw InputError(where, "is no number of seconds from 0 up");
  }
  return costs;
}

int run(const ImportOptions& options) {
  auto dialect = scheduler::parse_csv_dialect(options.dialect);
  auto transport = scheduler::parse_transport(options.transport);
  auto costs = read_costs(options.costs);
  auto plan = scheduler::read_torch_csv(read_text(options.table), options.table, dialect, costs);
  require_sound(plan, transport, options.table);
  bool as_plan = !options.output.empty();
  write_output(options.output, render_plan(plan, as_plan ? plan_format("", options.output) : PlanFormat::text,
                                           std::filesystem::path(options.table).stem().string()));
  return 0;
}

}  // namespace

void add_import(CLI::App& program, Session& session) {
  auto options = std::make_shared<ImportOptions>();
  auto command = program.add_subcommand(
      "import", "Take a schedule table of torch.distributed.pipelining: complete, verify and time it");
  command->add_option("table", options->table, "CSV file: a row per rank, a cell per action")->required();
  command
      ->add_option("--dialect", options->dialect,
                   "torch (B is a full backward) or torch-legacy (B its input half, BW the full one)")
      ->required();
  command->add_option("--transport", options->transport, "buffered, edge, pair or single (the strictest)")
      ->capture_default_str();
  command->add_option("--costs", options->costs, "Seconds per action; default F=1,B=2,I=1,W=1")->delimiter(',');
  command->add_option("-o,--output", options->output, "Write the plan (.json) or its page (.html)");
  command->footer("Example:\n  nestor import schedule.csv --dialect torch -o plan.json");
  command->callback([options, &session] { session.action = [options] { return run(*options); }; });
}

}  // namespace nestor::launch
