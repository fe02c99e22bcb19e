#include <algorithm>
#include <cmath>

#include <fnmatch.h>

#include <nestor/modules/config_section.h>
#include <nestor/modules/data/dataset_config.h>
#include <nestor/modules/data/image_text_dataset.h>
#include <nestor/modules/data/synthetic.h>
#include <nestor/modules/error.h>

namespace nestor::modules {
namespace {

constexpr std::int64_t max_image_size = 4096;
constexpr std::int64_t max_weight = 1000;
constexpr std::int64_t most_samples = 1 << 30;

/// A key that may be a list, a number or a mapping: what it is in the file.
bool is_mapping(const YAML::Node& data, const char* key) {
  const YAML::Node value = data[key];
  return value.IsDefined() && value.IsMap();
}

std::vector<std::pair<Task, std::int32_t>> read_tasks(const YAML::Node& data, ConfigSection& section) {
  std::vector<std::pair<Task, std::int32_t>> tasks;
  const auto add = [&](const std::string& name, std::int64_t weight) {
    for (const Task task : {Task::read, Task::draw, Task::text}) {
      if (name != task_name(task)) continue;
      for (const auto& [had, its_weight] : tasks) {
        if (had == task) section.fail("tasks", "has " + name + " twice", "keep one");
      }
      tasks.emplace_back(task, static_cast<std::int32_t>(weight));
      return;
    }
    section.fail("tasks", "has an unknown task", "read, draw or text");
  };
  if (is_mapping(data, "tasks")) {
    auto weights = section.section("tasks");
    for (const auto& name : weights.keys()) add(name, weights.integer(name, 1, 1, max_weight));
  } else {
    for (const auto& name : section.texts("tasks", {"read", "draw"})) add(name, 1);
  }
  if (tasks.empty()) section.fail("tasks", "names no task", "[read, draw] or {read: 1, draw: 3}");
  return tasks;
}

double read_amount(ConfigSection& section, const std::string& key) {
  constexpr double most = 1e9;
  const double amount = section.number(key, 0, 0, most);
  if (amount >= 1 && amount != std::floor(amount)) section.fail(key, "is neither a share nor a count", "0.1 or 20");
  return amount;
}

void read_held_out(const YAML::Node& data, ConfigSection& section, ImageTextOptions& options) {
  if (is_mapping(data, "held_out")) {
    auto parts = section.section("held_out");
    options.held_out = read_amount(parts, "pictures");
    options.held_out_captions = read_amount(parts, "captions");
    parts.finish();
  } else {
    options.held_out = read_amount(section, "held_out");
  }
}

/// What is used of the folder's pictures, and how their captions become tokens.
struct Selection {
  std::vector<std::string> patterns;
  std::int64_t limit;
  bool all_captions;
  TokenUnit unit;
  std::size_t vocabulary;
};

Selection read_selection(ConfigSection& section) {
  Selection selection{section.texts("include", {}), section.integer("limit", 0, 0, most_samples),
                      section.flag("all_captions", true), TokenUnit::words, 0};
  if (section.has("include") && selection.patterns.empty()) {
    section.fail("include", "names no pattern", "patterns of file names: [\"face-*\", \"go-*\"]");
  }
  if (section.choice("tokens", {"words", "characters"}) == "characters") selection.unit = TokenUnit::characters;
  selection.vocabulary = static_cast<std::size_t>(section.integer("vocabulary", 0, 0, 1 << 20));
  return selection;
}

void select(const Selection& selection, Manifest& manifest, const ConfigSection& section) {
  if (!selection.all_captions) keep_first_captions(manifest);
  if (!selection.patterns.empty()) {
    std::erase_if(manifest.pictures, [&](const Picture& picture) {
      return std::none_of(selection.patterns.begin(), selection.patterns.end(), [&](const std::string& pattern) {
        return ::fnmatch(pattern.c_str(), picture.file.c_str(), 0) == 0;
      });
    });
    if (manifest.pictures.empty()) section.fail("include", "matches no picture", "patterns match file names");
  }
  if (selection.limit > 0 && selection.limit < static_cast<std::int64_t>(manifest.pictures.size())) {
    manifest.pictures.resize(static_cast<std::size_t>(selection.limit));
  }
}

std::shared_ptr<const Tokenizer> choose_tokenizer(const Selection& selection, const Manifest& manifest,
                                                  const DatasetOptions& options) {
  if (!options.vocabulary.empty()) return std::make_shared<Tokenizer>(Tokenizer::load(options.vocabulary));
  std::vector<std::string> captions;
  for (const auto& picture : manifest.pictures) {
    for (const auto& caption : picture.captions) captions.push_back(caption.text);
  }
  return std::make_shared<Tokenizer>(Tokenizer::from_captions(selection.unit, captions, selection.vocabulary));
}

std::int64_t image_tokens(const DatasetOptions& options, std::int64_t image_size, const ConfigSection& section) {
  const std::int64_t tokens = options.image_tokens(image_size);
  if (tokens < 0) section.fail("image_size", "does not fit the encoder", "a multiple of its patch");
  return tokens;
}

Fit read_fit(ConfigSection& section) {
  const std::string fit = section.choice("fit", {"pad", "crop", "stretch"});
  return fit == "pad" ? Fit::pad : fit == "crop" ? Fit::crop : Fit::stretch;
}

CaptionSource read_caption_source(ConfigSection& section) {
  const std::string source = section.choice("captions", {"auto", "names", "sidecars", "table"});
  if (source == "names") return CaptionSource::names;
  if (source == "sidecars") return CaptionSource::sidecars;
  return source == "table" ? CaptionSource::table : CaptionSource::automatic;
}

LoadedDataset make_image_folder(const YAML::Node& data, ConfigSection& section, const DatasetOptions& options) {
  std::filesystem::path folder = section.text("path", "");
  if (folder.empty()) section.fail("path", "is missing", "the folder of the pictures");
  if (folder.is_relative() && !options.base.empty()) folder = options.base / folder;
  folder = folder.lexically_normal();
  ImageTextOptions to;
  to.image_size = section.integer("image_size", 32, 1, max_image_size);
  to.image_tokens = image_tokens(options, to.image_size, section);
  to.fit = read_fit(section);
  to.tasks = read_tasks(data, section);
  read_held_out(data, section, to);
  to.drop_caption = section.number("drop_caption", 0, 0, 1);
  to.label_drawn = section.flag("label_drawn", false);
  to.augment = section.integer("augment", 0, 0, to.image_size / 2);
  to.seed = options.seed;
  ManifestOptions from;
  from.captions = read_caption_source(section);
  const Selection selection = read_selection(section);
  from.links_are_captions = selection.all_captions;
  section.finish();

  Manifest manifest = read_manifest(folder, from);
  select(selection, manifest, section);
  LoadedDataset loaded;
  auto& info = loaded.info;
  info.tokenizer = choose_tokenizer(selection, manifest, options);
  info.vocabulary_size = info.tokenizer->size();
  info.image_size = to.image_size;
  info.image_tokens = to.image_tokens;
  info.placeholders = {{"pixels", id(SpecialToken::image)}};
  loaded.dataset = std::make_shared<ImageTextDataset>(std::move(manifest), *info.tokenizer, to);
  return loaded;
}

/// `key`: {INPUT: PROBABILITY, ...}; `fallback` where it is missing.
std::vector<std::pair<std::string, double>> read_images(ConfigSection& section, const std::string& key,
                                                        const std::string& fallback) {
  if (!section.has(key)) return {{fallback, 0.5}};
  auto images = section.section(key);
  std::vector<std::pair<std::string, double>> inputs;
  for (const auto& input : images.keys()) {
    if (input == "tokens" || input == "labels") images.fail(input, "is no image", "another name");
    inputs.emplace_back(input, images.number(input, 0, 0, 1));
  }
  return inputs;
}

LoadedDataset make_synthetic(ConfigSection& section, const DatasetOptions& options) {
  SyntheticOptions to;
  to.samples = section.integer("samples", to.samples, 1, most_samples);
  to.held_out = section.integer("held_out", to.held_out, 0, most_samples);
  to.vocabulary = section.integer("vocabulary", to.vocabulary, SyntheticDataset::first_word + 1, most_samples);
  to.image_size = section.integer("image_size", to.image_size, 1, max_image_size);
  to.shortest = section.integer("shortest", to.shortest, 1, 1 << 20);
  to.longest = section.integer("longest", std::max(to.longest, to.shortest), to.shortest, 1 << 20);
  to.labels = section.number("labels", 1, 0, 1);
  to.seed = options.seed.child("data");
  LoadedDataset loaded;
  auto& info = loaded.info;
  info.image_tokens = image_tokens(options, to.image_size, section);
  for (const auto& [input, probability] : read_images(section, "pixels", "pixels")) {
    // One placeholder for each input: the special token, then the ids between it and the first word.
    const auto extra = static_cast<std::int64_t>(info.placeholders.size());
    const std::int64_t placeholder = extra == 0 ? id(SpecialToken::image) : special_tokens - 1 + extra;
    if (placeholder >= SyntheticDataset::first_word) section.fail("pixels", "has too many inputs", "at most ten");
    info.placeholders[input] = placeholder;
    to.images.push_back({input, probability, info.image_tokens, placeholder});
  }
  for (const auto& [input, probability] : read_images(section, "targets", "target")) {
    if (info.placeholders.count(input)) section.fail("targets." + input, "is one of pixels too", "another name");
    to.images.push_back({input, probability, 0, 0});
  }
  section.finish();
  info.tokenizer = std::make_shared<Tokenizer>();
  info.vocabulary_size = to.vocabulary;
  info.image_size = to.image_size;
  loaded.dataset = std::make_shared<SyntheticDataset>(std::move(to));
  return loaded;
}

}  // namespace

LoadedDataset make_dataset(const YAML::Node& data, const DatasetOptions& options) {
  const auto colon = options.where.rfind(':');
  const bool bare = colon == std::string::npos;
  ConfigSection section(data, bare ? "config" : options.where.substr(0, colon),
                        bare ? options.where : options.where.substr(colon + 1));
  if (section.choice("kind", {"image_folder", "synthetic"}) == "synthetic") return make_synthetic(section, options);
  return make_image_folder(data, section, options);
}

}  // namespace nestor::modules
