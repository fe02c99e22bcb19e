#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <nestor/actors/remote/version.h>
#include <nestor/launch/commands/command.h>
#include <nestor/launch/exit.h>
#include <nestor/launch/files.h>
#include <nestor/launch/run.h>
#include <nestor/modules/suggest.h>

namespace nestor {
namespace {

using launch::bad_input;

int report(int code, const std::string& line) {
  std::cerr << "nestor: " << launch::one_line(line, 1000) << std::endl;
  return code;
}

std::vector<std::string> names(const CLI::App& app) {
  std::vector<std::string> names;
  for (auto command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> flags(const CLI::App& app) {
  std::vector<std::string> flags;
  for (auto option : app.get_options())
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

/// CLI11's own message, with the place, and the nearest name where something is unknown.
int usage_error(const CLI::App& program, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App* app = &program;
  std::string where = "command line";
  for (auto chosen = program.get_subcommands(); !chosen.empty(); chosen = app->get_subcommands()) {
    app = chosen.front();
    where = app == &program ? where : app->get_name();
  }
  std::string hint = "see nestor " + (app == &program ? "" : app->get_name() + " ") + "--help";

  if (app == &program && argc > 1 && argv[1][0] != '-') {
    auto known = names(program);
    return report(bad_input, where + ": there is no command \"" + launch::one_line(argv[1], 60) + "\" (" +
                                 modules::did_you_mean(argv[1], known) + ")");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    auto extras = program.remaining(true);
    if (extras.empty()) extras = app->remaining(true);
    std::string extra = extras.empty() ? "an argument" : extras.front();
    auto name = extra.substr(0, extra.find('='));
    auto known = flags(*app);
    auto near = extra.starts_with("-") ? modules::nearest(name, known) : "";
    return report(bad_input, where + ": does not take \"" + launch::one_line(extra, 60) + "\" (" +
                                 (near.empty() ? hint : "did you mean " + near + "?") + ")");
  }
  return report(bad_input, where + ": " + std::string(error.what()) + " (" + hint + ")");
}

}  // namespace

int run(int argc, char** argv, ModelBuilder build, ActorTypes types) {
  launch::Session session{std::move(build), {}, std::move(types)};
  try {
    CLI::App program("Nestor trains multimodal LLMs with the nested pipeline, and plans, verifies and draws schedules.",
                     "nestor");
    program.set_version_flag("--version", "nestor " + actors::remote::version());
    program.set_help_flag("-h,--help", "Show this and leave");
    program.require_subcommand(1);
    program.footer(
        "Example:\n  nestor train examples/configs/icons.yaml\nEach command has its own: nestor plan --help");
    launch::add_train(program, session);
    launch::add_generate(program, session);
    launch::add_prepare(program, session);
    launch::add_plan(program, session);
    launch::add_verify(program, session);
    launch::add_simulate(program, session);
    launch::add_sweep(program, session);
    launch::add_show(program, session);
    launch::add_import(program, session);
    launch::add_up(program, session);
    launch::add_cluster_queries(program, session);
    launch::add_logs(program, session);
    launch::add_driver(program, session);
    try {
      program.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help, --version
      return program.exit(asked, std::cout, std::cerr);
    } catch (const CLI::ParseError& error) {
      if (argc <= 1) {
        std::cerr << "nestor: command line: no command (";
        const char* between = "";
        for (const auto& name : names(program)) std::cerr << std::exchange(between, ", ") << name;
        std::cerr << "; see nestor --help)" << std::endl;
        return bad_input;
      }
      return usage_error(program, error, argc, argv);
    }
    return session.action();
  } catch (...) {
    const auto [code, line] = launch::exit_of(std::current_exception());
    return report(code, line);
  }
}

}  // namespace nestor
