#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <nestor/modules/batch.h>
#include <nestor/modules/data/tokenizer.h>

namespace YAML {
class Node;
}

namespace nestor::modules {

struct DatasetOptions {
  /// Positions in the text that one picture of that side takes: what the encoders of "pixels" give together, e.g.
  /// (side / patch)². 0 for a model without encoder.
  std::function<std::int64_t(std::int64_t image_size)> image_tokens = [](std::int64_t) { return 0; };
  Seed seed = Seed(1);                ///< the run's
  std::string where = "config:data";  ///< the section's place, for errors: "icons.yaml:data"
  std::filesystem::path base;         ///< what a relative data.path starts from; empty: the working folder
  std::filesystem::path vocabulary;   ///< a run folder's vocabulary.json, to go on with; empty: from the captions
};

/// What a model needs to know of its data.
struct DatasetInfo {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::int64_t vocabulary_size = 0;
  std::int64_t image_size = 0;  ///< side in pixels
  std::int64_t channels = 3;
  std::int64_t image_tokens = 0;                     ///< of one picture
  std::map<std::string, std::int64_t> placeholders;  ///< token in the text by an encoder's input ("pixels")
};

struct LoadedDataset {
  std::shared_ptr<const Dataset> dataset;
  DatasetInfo info;
};

/// The dataset of a configuration's `data` section; docs/data.md lists the keys of each kind (image_folder,
/// synthetic). Strict: an unknown key, a wrong type or a value out of range is an Error "SOURCE:FIELD.KEY: WHAT
/// (HINT)". Pictures are read here, so that a bad one stops the run before it starts.
LoadedDataset make_dataset(const YAML::Node& data, const DatasetOptions& options = {});

}  // namespace nestor::modules
