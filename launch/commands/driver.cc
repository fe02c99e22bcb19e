#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/driver/cluster_target.h>
#include <nestor/launch/driver/commands.h>
#include <nestor/launch/driver/embedded_target.h>
#include <nestor/launch/driver/lines.h>
#include <nestor/launch/driver/parser.h>
#include <nestor/launch/driver/session.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/terminal.h>
#include <nestor/launch/training_set.h>

namespace nestor::launch {
namespace {

struct DriverOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::optional<std::string> cluster;  ///< empty: the only one
  bool resume = false, overwrite = false, keep_going = false;
};

/// The words of a line that is being typed; the last one is begun, maybe empty.
Words words_begun(const std::string& line) {
  Words words = split_words(line);
  if (line.empty() || line.back() == ' ') words.emplace_back();
  return words;
}

std::unique_ptr<LineSource> typed_lines(const std::string& name, DriverContext& context) {
  Completion completion;
  completion.names = [&context](const std::string& line) { return completions(words_begun(line), context); };
  completion.files = [](const std::string& line) {
    try {
      return completes_files(words_begun(line));
    } catch (const InputError&) {
      return false;  // an open quote
    }
  };
  return terminal_lines(name + "> ", driver_history_file(), std::move(completion), context.interrupts);
}

int steer(DriverTarget& target, const std::string& name, const DriverOptions& options, const ModelBuilder& build,
          Interrupts& interrupts) {
  DriverContext context{target, build, interrupts, std::cout};
  context.width = static_cast<std::int32_t>(terminal_width(STDOUT_FILENO));
  context.unicode = utf8_locale();
  const bool typed = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (typed) std::cout << "help lists the commands" << std::endl;
  const auto lines = typed ? typed_lines(name, context) : script_lines(STDIN_FILENO, interrupts);
  return run_session(*lines, context, options.keep_going);
}

int run(const DriverOptions& options, const ModelBuilder& build) {
  if (options.resume && options.overwrite)
    throw InputError("driver", "--resume and --overwrite exclude each other", "give one");
  std::optional<TrainConfig> config;
  if (!options.config.empty()) {
    config = read_config(read_text(options.config, std::size_t{16} << 20), options.config, options.overrides);
    resolve_paths(*config, options.config);
  } else if (!options.overrides.empty() || options.resume || options.overwrite) {
    throw InputError("driver", "--set, --resume and --overwrite need a CONFIG", "set run.steps=N within the session");
  }
  const auto how = options.resume      ? RunFolder::Open::resume
                   : options.overwrite ? RunFolder::Open::overwrite
                                       : RunFolder::Open::fresh;
  Interrupts interrupts;
  if (config && !options.cluster) {
    EmbeddedTarget target(*std::move(config), build, how);
    int code = steer(target, "nestor", options, build, interrupts);
    const std::string failure = target.finish();
    for (const std::string& line : target.news().lines) std::cout << line << '\n';
    std::cout.flush();
    if (!failure.empty() && code == 0) throw WorkError("driver", failure);
    return code;
  }
  ClusterTarget target(options.cluster.value_or(""));
  if (config)
    target.start(*std::move(config), options.config, how, [&](const JobOutput& output) {
      for (const std::string& line : output.lines) std::cout << line << '\n';
      return interrupts.requested() != 0 ? Wait::leave : Wait::on;
    });
  return steer(target, target.name(), options, build, interrupts);
}

}  // namespace

void add_driver(CLI::App& program, Session& session) {
  auto options = std::make_shared<DriverOptions>();
  auto command = program.add_subcommand("driver", "Steer a training by hand or by script, step by step");
  command->add_option("config", options->config,
                      "nestor.train/1 file of a job to start, paused; without one: attach to a cluster's job");
  command
      ->add_option("--cluster", options->cluster, "On this running cluster (nestor up); without a name on the only one")
      ->expected(0, 1)
      ->default_str("")
      ->type_name("NAME");
  command->add_option("--set", options->overrides, "Override a key of the config, e.g. run.steps=20; may be repeated")
      ->expected(1)
      ->take_all()
      ->type_name("KEY=VALUE");
  command->add_flag("--resume", options->resume, "Go on from the run folder's newest checkpoint");
  command->add_flag("--overwrite", options->overwrite, "Start anew in a folder that holds an earlier run");
  command->add_flag("--keep-going", options->keep_going, "A line of a script that fails does not end it");
  command->footer(
      "Lines come from the terminal, or from standard input as a script; help lists the commands.\n"
      "Example:\n  nestor driver examples/configs/synthetic.yaml\n"
      "  printf 'step 5\\npolicy coupled\\nstep 5\\nloss\\n' | nestor driver examples/configs/synthetic.yaml\n"
      "  nestor driver --cluster lab");
  command->callback(
      [options, &session] { session.action = [options, &session] { return run(*options, session.build); }; });
}

}  // namespace nestor::launch
