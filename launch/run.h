#pragma once

#include <functional>

#include <yaml-cpp/yaml.h>

#include <nestor/modules/model.h>

namespace nestor {

/// The `model` section of a training config, as given.
using ModelConfig = YAML::Node;
using ModelBuilder = std::function<modules::Model(const ModelConfig&)>;

/// The `nestor` program with a model of the user's own: every subcommand, exit codes of docs/errors.md.
/// Without a builder the model is the one that the config names (docs/formats.md).
int run(int argc, char** argv, ModelBuilder build = nullptr);

}  // namespace nestor
