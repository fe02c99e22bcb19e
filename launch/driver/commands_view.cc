#include <algorithm>
#include <array>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <nestor/launch/cluster/rows_text.h>
#include <nestor/launch/commands/command.h>
#include <nestor/launch/commands/plan_output.h>
#include <nestor/launch/driver/commands.h>
#include <nestor/launch/driver/plot.h>
#include <nestor/launch/driver/watcher.h>
#include <nestor/launch/error.h>

// Commands that look at the job and use what it has made.

namespace nestor::launch {
namespace {

void status(const Words&, DriverContext& context) {
  const ClusterRow row = context.target.status();
  context.out << (row.name.empty() ? job_text(row.job) : status_text(row));
}

void plan(const Words&, DriverContext& context) {
  const auto plan = context.target.plan();
  if (!plan) throw InputError("plan", "there is none yet", "the first step makes it: step");
  context.out << render_plan(*plan, PlanFormat::text, "", context.width);
}

void actors(const Words&, DriverContext& context) {
  context.out << actors_text(context.target.actors());
}

void nodes(const Words&, DriverContext& context) {
  const auto rows = context.target.nodes();
  context.out << (rows.empty() ? "this process alone\n" : nodes_text(rows));
}

void faults(const Words&, DriverContext& context) {
  context.out << faults_text(context.target.status().faults, 1000);
}

void loss(const Words& words, DriverContext& context) {
  const auto history = context.target.history();
  if (history.empty()) throw InputError("loss", "no step is done yet", "step");
  const std::string name = words.empty() ? "" : words[0];
  std::vector<PlotPoint> points;
  for (const StepRow& row : history) {
    const auto found = row.losses.find(name);
    if (!name.empty() && found == row.losses.end()) {
      std::vector<std::string> known;
      for (const auto& [other, value] : row.losses) known.push_back(other);
      throw InputError("loss", "there is none of that name", fmt::format("it has {}", fmt::join(known, ", ")));
    }
    points.push_back({static_cast<double>(row.step), name.empty() ? row.loss : found->second});
  }
  context.out << fmt::format("{} by step\n", name.empty() ? "loss" : name + " loss")
              << plot(points, {std::min(context.width, 100), 12, context.unicode}) << step_text(history.back()) << '\n';
}

void generate(const Words& words, DriverContext& context) {
  const JobRow job = context.target.status().job;
  if (job.step > 0 && (job.state == "paused" || job.state == "running")) context.target.checkpoint();
  show_news(context);
  // The command `nestor generate` with the run's folder before its own arguments.
  CLI::App program("", "driver");
  Session session{context.build, {}};
  add_generate(program, session);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  reversed.push_back(job.dir);
  reversed.push_back("generate");
  try {
    program.parse(reversed);
  } catch (const CLI::Success&) {
    context.out << program.get_subcommand("generate")->help();
    return;
  } catch (const CLI::ParseError& error) {
    throw InputError("generate", error.what(), "see generate --help");
  }
  context.out.flush();
  session.action();
}

/// Arguments that are no JSON are strings: call store get name.
void call(const Words& words, DriverContext& context) {
  auto arguments = nlohmann::json::array();
  for (std::size_t i = 2; i < words.size(); ++i) {
    auto value = nlohmann::json::parse(words[i], nullptr, false);
    arguments.push_back(value.is_discarded() ? nlohmann::json(words[i]) : std::move(value));
  }
  const auto text = arguments.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string result = context.target.call(words[0], words[1], text);
  if (result != "null") context.out << result << '\n';  // a method that returns nothing
}

const std::array kViewCommands{
    DriverCommand{"status", "", "How the job is", "status", Completes::nothing, 0, 0, status},
    DriverCommand{"loss", "[NAME]", "The loss so far, or one of its parts, as a curve", "loss", Completes::nothing, 0,
                  1, loss},
    DriverCommand{"plan", "", "The last step's operators by lane and time", "plan", Completes::nothing, 0, 0, plan},
    DriverCommand{"generate", "[ARGUMENTS]", "Draw and read with the model as it is now; as nestor generate",
                  "generate --draw \"edit find\" -o find.png", Completes::files, 0, 1000, generate},
    DriverCommand{"actors", "", "The processes and actors", "actors", Completes::nothing, 0, 0, actors},
    DriverCommand{"call", "ACTOR METHOD [ARGUMENT...]", "Call a method of an actor of your own; arguments as JSON",
                  "call counter add 5", Completes::actors, 2, 1000, call},
    DriverCommand{"nodes", "", "The hosts", "nodes", Completes::nothing, 0, 0, nodes},
    DriverCommand{"faults", "", "What died, when and why", "faults", Completes::nothing, 0, 0, faults},
};

}  // namespace

std::span<const DriverCommand> view_commands() {
  return kViewCommands;
}

}  // namespace nestor::launch
