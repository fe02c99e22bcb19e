#include <nestor/launch/error.h>
#include <nestor/launch/training_set.h>
#include <nestor/modules/data/dataset_config.h>
#include <nestor/modules/model_config.h>

namespace fs = std::filesystem;

namespace nestor::launch {
namespace {

/// Positions of one picture. A user's own model section may say it in a key of its own.
std::int64_t image_tokens(const TrainConfig& config, bool own_model, std::int64_t image_size) {
  const YAML::Node& model = config.model;
  if (!own_model) return modules::image_tokens(model, image_size, config.source);
  const auto said = model.IsMap() ? model["image_tokens"] : YAML::Node();
  if (!said.IsDefined() || said.IsNull()) return 0;
  std::int64_t tokens = -1;
  if (!YAML::convert<std::int64_t>::decode(said, tokens) || tokens < 0 || tokens > 1 << 20)
    throw InputError(config.source + ":model.image_tokens", "is not a whole number from 0 to 1048576");
  return tokens;
}

}  // namespace

void resolve_paths(TrainConfig& config, const fs::path& config_file) {
  if (!config.data.IsMap()) return;
  YAML::Node node = config.data["path"];
  if (!node.IsDefined() || !node.IsScalar() || node.Scalar().empty()) return;
  fs::path path = node.Scalar();
  if (path.is_absolute()) return;
  std::error_code error;
  auto beside = config_file.parent_path() / path;
  bool here = fs::exists(path, error), there = fs::exists(beside, error);
  if (!here && !there)
    throw InputError(config.source + ":data.path", "there is no " + path.string(),
                     "the icons of examples/configs: nestor prepare icons --size 16 --held-out-size 22 -o data/icons");
  config.data["path"] = fs::absolute(!here && there ? beside : path).lexically_normal().string();
}

TrainingSet load_training_set(const TrainConfig& config, const ModelBuilder& build, const fs::path& vocabulary) {
  bool own_model = static_cast<bool>(build);
  modules::DatasetOptions options;
  options.image_tokens = [&](std::int64_t size) { return image_tokens(config, own_model, size); };
  options.seed = modules::Seed(config.run.seed);
  options.where = config.source + ":data";
  options.vocabulary = vocabulary;
  auto loaded = modules::make_dataset(config.data, options);
  const auto& info = loaded.info;

  TrainingSet set;
  set.dataset = std::move(loaded.dataset);
  set.tokenizer = info.tokenizer;
  set.image_size = info.image_size;
  set.image_tokens = info.image_tokens;
  if (own_model) {
    auto section = YAML::Clone(config.model);
    auto placeholder = info.placeholders.find("pixels");
    section["data"]["vocabulary"] = info.vocabulary_size;
    section["data"]["image_token"] = placeholder == info.placeholders.end() ? -1 : placeholder->second;
    section["data"]["image_tokens"] = info.image_tokens;
    section["data"]["image_size"] = info.image_size;
    section["data"]["channels"] = info.channels;
    try {
      set.model = build(section);
    } catch (const YAML::Exception& error) {
      throw InputError(config.source + ":model", error.msg);
    }
  } else {
    set.model = modules::model_from_config(config.model, info, config.source);
  }
  set.model.validate();
  return set;
}

}  // namespace nestor::launch
