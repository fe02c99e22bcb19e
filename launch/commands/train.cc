#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <nestor/launch/cluster/client.h>
#include <nestor/launch/commands/command.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/training.h>
#include <nestor/launch/training_set.h>

namespace nestor::launch {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool resume = false, overwrite = false;
  std::optional<std::string> cluster;  ///< empty: the only one
};

int run(const TrainOptions& options, const ModelBuilder& build) {
  if (options.resume && options.overwrite)
    throw InputError("train", "--resume and --overwrite exclude each other", "give one");
  auto config = read_config(read_text(options.config, std::size_t{16} << 20), options.config, options.overrides);
  resolve_paths(config, options.config);
  const auto how = options.resume      ? RunFolder::Open::resume
                   : options.overwrite ? RunFolder::Open::overwrite
                                       : RunFolder::Open::fresh;
  if (!options.cluster) return train(std::move(config), build, how);
  ClusterClient cluster(*options.cluster);
  config.run.dir = std::filesystem::absolute(config.run.dir);
  TrainRequest request{write_config(config), options.config, static_cast<std::uint8_t>(how)};
  cluster.head().call(&HeadActor::train, std::move(request)).get();
  return follow_job(cluster);
}

}  // namespace

void add_train(CLI::App& program, Session& session) {
  auto options = std::make_shared<TrainOptions>();
  auto command = program.add_subcommand("train", "Train a model as a config says");
  command->add_option("config", options->config, "nestor.train/1 file")->required();
  command->add_option("--set", options->overrides, "Override a key, e.g. run.steps=20; may be repeated")
      ->expected(1)
      ->take_all()
      ->type_name("KEY=VALUE");
  command->add_flag("--resume", options->resume, "Go on from the run folder's newest checkpoint");
  command
      ->add_option("--cluster", options->cluster,
                   "Train on this running cluster (nestor up); without a name on the only one")
      ->expected(0, 1)
      ->default_str("")
      ->type_name("NAME");
  command->add_flag("--overwrite", options->overwrite, "Start anew in a folder that holds an earlier run");
  command->footer(
      "Ctrl-C finishes the step, saves and says how to go on; a second one aborts the step.\n"
      "Example:\n  nestor train examples/configs/icons.yaml --set run.steps=20 --set schedule.policy=coupled");
  command->callback(
      [options, &session] { session.action = [options, &session] { return run(*options, session.build); }; });
}

}  // namespace nestor::launch
