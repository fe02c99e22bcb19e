#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include <nestor/launch/config.h>
#include <nestor/launch/run.h>
#include <nestor/modules/data/tokenizer.h>

namespace nestor::launch {

/// What a config's `data` and `model` sections mean: the samples and the model, neither trained nor placed.
struct TrainingSet {
  std::shared_ptr<const modules::Dataset> dataset;
  std::shared_ptr<const modules::Tokenizer> tokenizer;
  modules::Model model;
  std::int64_t image_size = 0;
  std::int64_t image_tokens = 0;  ///< positions in the text that one picture takes
};

/// Makes `data.path` absolute: as seen from the working folder, or else, where nothing is there, from the config's own.
/// Throws InputError where nothing is in either.
void resolve_paths(TrainConfig& config, const std::filesystem::path& config_file);

/// Reads the data and declares the model, by `build` where one is given. `vocabulary`: a run folder's vocabulary.json
/// to go on with; empty: made from the captions. Throws InputError or modules::Error.
TrainingSet load_training_set(const TrainConfig& config, const ModelBuilder& build,
                              const std::filesystem::path& vocabulary = {});

}  // namespace nestor::launch
