#include <algorithm>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/launch/commands/table.h>
#include <nestor/launch/driver/commands.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/modules/suggest.h>
#include <nestor/scheduler/planner.h>

namespace nestor::launch {
namespace {

const DriverCommand* find_command(const std::string& name) {
  for (const DriverCommand& command : driver_commands())
    if (command.name == name) return &command;
  return nullptr;
}

const DriverCommand& known_command(const std::string& name) {
  if (const DriverCommand* command = find_command(name)) return *command;
  std::vector<std::string> known;
  for (const DriverCommand& command : driver_commands()) known.push_back(command.name);
  const std::string near = modules::nearest(name, known);
  throw InputError(one_line(name, 40), "there is no such command",
                   near.empty() ? "help lists them" : "did you mean " + near + "?");
}

void help(const Words& words, DriverContext& context) {
  if (!words.empty()) {
    const DriverCommand& command = known_command(words[0]);
    context.out << fmt::format("{}{}{}\n  {}\nExample:\n  {}\n", command.name, command.usage.empty() ? "" : " ",
                               command.usage, command.summary, command.example);
    return;
  }
  std::size_t widest = 0;
  for (const DriverCommand& command : driver_commands())
    widest = std::max(widest, command.name.size() + 1 + command.usage.size());
  for (const DriverCommand& command : driver_commands())
    context.out << fmt::format("{:<{}}  {}\n", command.name + " " + command.usage, widest, command.summary);
  context.out << "help COMMAND shows an example. Ctrl-C pauses the job; Ctrl-D leaves.\n";
}

void quit(const Words&, DriverContext& context) {
  context.left = true;
}

void history(const Words&, DriverContext& context) {
  std::size_t number = 0;
  for (const std::string& line : context.lines) context.out << fmt::format("{:>4}  {}\n", ++number, line);
}

std::vector<std::string> candidates(const DriverCommand& command, DriverContext& context) {
  std::vector<std::string> names;
  switch (command.completes) {
    case Completes::commands:
      for (const DriverCommand& other : driver_commands()) names.push_back(other.name);
      break;
    case Completes::policies:
      for (std::string_view name : scheduler::policy_names()) names.emplace_back(name);
      break;
    case Completes::pools:
      for (const auto& [pool, lanes] : context.target.status().job.pools) names.push_back(pool);
      break;
    case Completes::keys:
      names = {"run.steps=",        "run.checkpoint_every=", "run.keep_checkpoints=", "run.eval_every=",
               "run.eval_samples=", "run.trace_every=",      "run.report_samples="};
      break;
    case Completes::actors:
      for (const ActorRow& row : context.target.actors()) names.push_back(row.name);
      break;
    case Completes::nothing:
    case Completes::files:
      break;
  }
  return names;
}

}  // namespace

const std::vector<DriverCommand>& driver_commands() {
  static const std::vector<DriverCommand> all = [] {
    std::vector<DriverCommand> commands;
    for (auto some : {job_commands(), view_commands()}) commands.insert(commands.end(), some.begin(), some.end());
    commands.push_back({"history", "", "The lines of this session", "history", Completes::nothing, 0, 0, history});
    commands.push_back(
        {"help", "[COMMAND]", "These, or one with an example", "help resize", Completes::commands, 0, 1, help});
    commands.push_back({"quit", "", "Leave: a cluster's job goes on as it is, one of this process saves and ends",
                        "quit", Completes::nothing, 0, 0, quit});
    return commands;
  }();
  return all;
}

void run_command(const Words& words, DriverContext& context) {
  const DriverCommand& command = known_command(words.at(0));
  const Words arguments(words.begin() + 1, words.end());
  if (arguments.size() < command.least || arguments.size() > command.most)
    throw InputError(command.name, arguments.size() < command.least ? "needs more than that" : "takes less than that",
                     "e.g. " + command.example);
  command.run(arguments, context);
}

std::vector<std::string> completions(const Words& words, DriverContext& context) {
  std::vector<std::string> names, fitting;
  if (words.size() <= 1) {
    for (const DriverCommand& command : driver_commands()) names.push_back(command.name);
  } else if (words.size() == 2) {
    if (const DriverCommand* command = find_command(words[0])) names = candidates(*command, context);
  }
  const std::string begun = words.empty() ? "" : words.back();
  std::copy_if(names.begin(), names.end(), std::back_inserter(fitting),
               [&](const std::string& name) { return name.starts_with(begun); });
  return fitting;
}

bool completes_files(const Words& words) {
  if (words.size() < 2) return false;
  const DriverCommand* command = find_command(words[0]);
  return command != nullptr && command->completes == Completes::files;
}

}  // namespace nestor::launch
