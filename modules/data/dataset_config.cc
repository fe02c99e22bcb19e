#include <algorithm>
#include <cmath>

#include <fnmatch.h>

#include <nestor/modules/data/dataset_config.h>
#include <nestor/modules/data/fields.h>
#include <nestor/modules/data/image_text_dataset.h>
#include <nestor/modules/data/synthetic.h>
#include <nestor/modules/error.h>

namespace nestor::modules {
namespace {

constexpr std::int64_t max_image_size = 4096;
constexpr std::int64_t max_weight = 1000;

std::vector<std::pair<Task, std::int32_t>> read_tasks(Fields& fields) {
  const auto node = fields.node("tasks");
  std::vector<std::pair<Task, std::int32_t>> tasks;
  if (!node.IsDefined()) return {{Task::read, 1}, {Task::draw, 1}};
  const auto add = [&](const YAML::Node& name, std::int64_t weight) {
    for (const Task task : {Task::read, Task::draw, Task::text}) {
      if (!name.IsScalar() || name.Scalar() != task_name(task)) continue;
      if (std::any_of(tasks.begin(), tasks.end(), [&](const auto& had) { return had.first == task; })) {
        fields.fail("tasks", "has " + name.Scalar() + " twice", "keep one");
      }
      if (weight < 1 || weight > max_weight) fields.fail("tasks", "has a weight out of range", "1 to 1000");
      tasks.emplace_back(task, static_cast<std::int32_t>(weight));
      return;
    }
    fields.fail("tasks", "has an unknown task", "read, draw or text");
  };
  if (node.IsSequence()) {
    for (const auto& name : node) add(name, 1);
  } else if (node.IsMap()) {
    for (const auto& entry : node) add(entry.first, parse_integer(entry.second, fields.place("tasks")));
  }
  if (tasks.empty()) fields.fail("tasks", "names no task", "[read, draw] or {read: 1, draw: 3}");
  return tasks;
}

void read_held_out(Fields& fields, ImageTextOptions& options) {
  constexpr double most = 1e9;
  const auto whole_or_share = [](double value, const std::string& place) {
    if (value >= 1 && value != std::floor(value)) throw Error(place, "is neither share nor count", "0.1 or 20");
  };
  const auto node = fields.node("held_out");
  if (!node.IsDefined()) return;
  if (node.IsMap()) {
    Fields parts(node, fields.place("held_out"));
    options.held_out = parts.number("pictures", 0, 0, most);
    options.held_out_captions = parts.number("captions", 0, 0, most);
    parts.finish();
    whole_or_share(options.held_out_captions, fields.place("held_out.captions"));
  } else {
    options.held_out = fields.number("held_out", 0, 0, most);
  }
  whole_or_share(options.held_out, fields.place("held_out"));
}

/// What is used of the folder's pictures, and how their captions become tokens.
struct Selection {
  std::vector<std::string> patterns;
  std::int64_t limit;
  bool all_captions;
  TokenUnit unit;
  std::size_t vocabulary;
};

Selection read_selection(Fields& fields) {
  Selection selection{{}, fields.integer("limit", 0, 0), fields.flag("all_captions", true), {}, 0};
  selection.unit = static_cast<TokenUnit>(fields.choice("tokens", "words", {"words", "characters"}));
  selection.vocabulary = static_cast<std::size_t>(fields.integer("vocabulary", 0, 0, 1 << 20));
  const auto include = fields.node("include");
  if (!include.IsDefined()) return selection;
  const char* const hint = "patterns of file names: [\"face-*\", \"go-*\"]";
  if (include.IsScalar()) selection.patterns.push_back(include.Scalar());
  if (include.IsSequence()) {
    for (const auto& pattern : include) {
      if (!pattern.IsScalar()) fields.fail("include", "has an entry that is no pattern", hint);
      selection.patterns.push_back(pattern.Scalar());
    }
  }
  if (selection.patterns.empty()) fields.fail("include", "names no pattern", hint);
  return selection;
}

void select(const Selection& selection, Manifest& manifest, const Fields& fields) {
  if (!selection.all_captions) keep_first_captions(manifest);
  if (!selection.patterns.empty()) {
    std::erase_if(manifest.pictures, [&](const Picture& picture) {
      return std::none_of(selection.patterns.begin(), selection.patterns.end(), [&](const std::string& pattern) {
        return ::fnmatch(pattern.c_str(), picture.file.c_str(), 0) == 0;
      });
    });
    if (manifest.pictures.empty()) fields.fail("include", "matches no picture", "patterns match file names");
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

std::int64_t image_tokens(const DatasetOptions& options, std::int64_t image_size, const Fields& fields) {
  const std::int64_t tokens = options.image_tokens(image_size);
  if (tokens < 0) fields.fail("image_size", "does not fit the encoder", "a multiple of its patch");
  return tokens;
}

LoadedDataset make_image_folder(Fields& fields, const DatasetOptions& options) {
  std::filesystem::path folder = fields.text("path");
  if (folder.is_relative() && !options.base.empty()) folder = options.base / folder;
  ImageTextOptions to;
  to.image_size = fields.integer("image_size", 32, 1, max_image_size);
  to.image_tokens = image_tokens(options, to.image_size, fields);
  to.fit = static_cast<Fit>(fields.choice("fit", "pad", {"pad", "crop", "stretch"}));
  to.tasks = read_tasks(fields);
  read_held_out(fields, to);
  to.drop_caption = fields.number("drop_caption", 0, 0, 1);
  to.label_drawn = fields.flag("label_drawn", false);
  to.augment = fields.integer("augment", 0, 0, to.image_size / 2);
  to.seed = options.seed;

  ManifestOptions from;
  from.captions = static_cast<CaptionSource>(fields.choice("captions", "auto", {"auto", "names", "sidecars", "table"}));
  const Selection selection = read_selection(fields);
  from.links_are_captions = selection.all_captions;
  fields.finish();

  Manifest manifest = read_manifest(folder, from);
  select(selection, manifest, fields);
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

/// `key`: {INPUT: PROBABILITY, ...}.
std::vector<std::pair<std::string, double>> read_images(Fields& fields, std::string_view key,
                                                        std::vector<std::pair<std::string, double>> fallback) {
  const auto node = fields.node(key);
  if (!node.IsDefined()) return fallback;
  Fields images(node, fields.place(key));
  std::vector<std::pair<std::string, double>> inputs;
  for (const auto& entry : node) {
    inputs.emplace_back(entry.first.Scalar(), images.number(entry.first.Scalar(), 0, 0, 1));
  }
  return inputs;
}

LoadedDataset make_synthetic(Fields& fields, const DatasetOptions& options) {
  constexpr std::int64_t most = 1 << 30;
  SyntheticOptions to;
  to.samples = fields.integer("samples", to.samples, 1, most);
  to.held_out = fields.integer("held_out", to.held_out, 0, most);
  to.vocabulary = fields.integer("vocabulary", to.vocabulary, SyntheticDataset::first_word + 1, most);
  to.image_size = fields.integer("image_size", to.image_size, 1, max_image_size);
  to.shortest = fields.integer("shortest", to.shortest, 1, 1 << 20);
  to.longest = fields.integer("longest", std::max(to.longest, to.shortest), to.shortest, 1 << 20);
  to.labels = fields.number("labels", 1, 0, 1);
  to.seed = options.seed.child("data");
  LoadedDataset loaded;
  auto& info = loaded.info;
  info.image_tokens = image_tokens(options, to.image_size, fields);
  for (const auto& [input, probability] : read_images(fields, "pixels", {{"pixels", 0.5}})) {
    // One placeholder for each input: the special token, then the ids between it and the first word.
    const auto extra = static_cast<std::int64_t>(info.placeholders.size());
    const std::int64_t placeholder = extra == 0 ? id(SpecialToken::image) : special_tokens - 1 + extra;
    if (placeholder >= SyntheticDataset::first_word) fields.fail("pixels", "has too many inputs", "at most ten");
    info.placeholders[input] = placeholder;
    to.images.push_back({input, probability, info.image_tokens, placeholder});
  }
  for (const auto& [input, probability] : read_images(fields, "targets", {{"target", 0.5}})) {
    if (info.placeholders.count(input)) fields.fail("targets", "has the input \"" + input + "\" of pixels", "rename");
    to.images.push_back({input, probability, 0, 0});
  }
  fields.finish();
  info.tokenizer = std::make_shared<Tokenizer>();
  info.vocabulary_size = to.vocabulary;
  info.image_size = to.image_size;
  loaded.dataset = std::make_shared<SyntheticDataset>(std::move(to));
  return loaded;
}

}  // namespace

LoadedDataset make_dataset(const YAML::Node& data, const DatasetOptions& options) {
  Fields fields(data, options.where);
  const auto kind = fields.choice("kind", "image_folder", {"image_folder", "synthetic"});
  return kind == 0 ? make_image_folder(fields, options) : make_synthetic(fields, options);
}

}  // namespace nestor::modules
