#pragma once

#include <functional>

#include <yaml-cpp/yaml.h>

#include <nestor/actors/remote/actor_types.h>
#include <nestor/modules/modules.h>

namespace nestor {

/// The `model` section of a training config, as given, and under `data` what its data is: `vocabulary`, `image_token`
/// (placeholder of a picture's positions in the text), `image_tokens` (how many; the section's own key of that name),
/// `image_size`, `channels`.
using ModelConfig = YAML::Node;
using ModelBuilder = std::function<modules::Model(const ModelConfig&)>;

/// The `nestor` program with a model of the user's own: every subcommand, exit codes of docs/errors.md.
/// Without a builder the model is the one that the config names (docs/formats.md). Call it before any thread is made.
/// `types` are the actors that may be spawned on clusters of this program (launch/cluster/cluster.h); nothing else is.
int run(int argc, char** argv, ModelBuilder build = nullptr, ActorTypes types = {});

}  // namespace nestor
