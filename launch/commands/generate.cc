#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/progress.h>
#include <nestor/launch/sampling.h>
#include <nestor/launch/training_set.h>
#include <nestor/modules/data/image.h>
#include <nestor/modules/data/image_text_dataset.h>
#include <nestor/modules/train/checkpoint.h>

namespace fs = std::filesystem;

namespace nestor::launch {
namespace {

struct GenerateOptions {
  fs::path from;
  std::vector<std::string> draw;
  std::vector<fs::path> read;
  std::int64_t count = 4;
  std::uint64_t seed = 1;
  std::string output, format = "text";
};

/// A run folder's newest checkpoint, or the checkpoint itself and the run folder above it.
std::pair<fs::path, fs::path> locate(const fs::path& from) {
  std::error_code error;
  auto path = from.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (!fs::is_directory(path, error)) throw InputError(from.string(), "there is no such run or checkpoint");
  if (fs::exists(path / "checkpoint.json", error)) {
    auto run = fs::absolute(path).parent_path().parent_path();
    if (!fs::exists(run / "config.yaml", error))
      throw InputError(from.string(), "lies in no run folder", "its model is described by the run's config.yaml");
    return {run, path};
  }
  if (!fs::exists(path / "config.yaml", error))
    throw InputError(from.string(), "is neither a run folder nor a checkpoint", "e.g. runs/icons");
  auto newest = modules::newest_checkpoint(path / "checkpoints");
  if (!newest) throw InputError(from.string(), "has no checkpoint yet");
  return {path, *newest};
}

Sampling load(const TrainConfig& config, const TrainingSet& set, const fs::path& checkpoint) {
  modules::PartOptions options;
  options.dtype = config.run.dtype;
  options.seed = modules::Seed(config.run.seed);
  modules::WholeModel empty(set.model, options);
  std::set<std::string> names;
  for (const auto& [name, tensor] : empty.parameters()) names.insert(name);
  return {set, options, modules::read_checkpoint(checkpoint, names)};
}

torch::Tensor read_picture(const fs::path& path, std::int64_t size) {
  return modules::to_unit_range(modules::resize_image(modules::read_image_bytes(path), size));
}

int run(const GenerateOptions& options, const ModelBuilder& build) {
  if (options.format != "text" && options.format != "json")
    throw InputError("--format", "there is no format \"" + one_line(options.format, 40) + "\"", "text or json");
  auto output = options.output.empty() ? std::string("samples.png") : options.output;
  if (options.read.empty() || !options.draw.empty()) check_writable(output);
  auto [run_folder, checkpoint] = locate(options.from);
  auto config_file = run_folder / "config.yaml";
  auto config = read_config(read_text(config_file), config_file.string(), {});
  auto vocabulary = run_folder / "vocabulary.json";
  auto set = load_training_set(config, build, fs::exists(vocabulary) ? vocabulary : "");

  auto texts = options.draw;
  auto dataset = std::dynamic_pointer_cast<const modules::ImageTextDataset>(set.dataset);
  std::vector<torch::Tensor> pictures;
  std::vector<std::string> names;
  for (const auto& path : options.read) {
    pictures.push_back(read_picture(path, set.image_size));
    names.push_back(path.string());
  }
  // Nothing asked for: some of the run's own.
  bool own = texts.empty() && pictures.empty();
  if (own && !dataset) throw InputError("generate", "the run's data has no pictures", "give --draw or --read");
  if (own) {
    for (std::int64_t id = 0; id < dataset->size(modules::Split::train); ++id) {
      auto sample = dataset->describe(modules::Split::train, id, 0);
      auto wanted = static_cast<std::size_t>(options.count);
      if (dataset->task(sample) == modules::Task::draw && texts.size() < wanted) {
        texts.push_back(dataset->caption(sample));
      } else if (dataset->task(sample) == modules::Task::read && pictures.size() < wanted) {
        pictures.push_back(modules::to_unit_range(dataset->picture(sample)));
        names.push_back(dataset->caption(sample));
      }
    }
  } else if (!texts.empty() && options.count > 1) {
    std::vector<std::string> repeated;
    for (const auto& text : texts) repeated.insert(repeated.end(), static_cast<std::size_t>(options.count), text);
    texts = std::move(repeated);
  }

  auto sampling = load(config, set, checkpoint);
  if (!texts.empty() && !sampling.can_draw()) throw InputError("--draw", "the model has no generator");
  if (!pictures.empty() && !sampling.can_read()) throw InputError("--read", "the model has no encoder and head");

  nlohmann::ordered_json json{{"format", "nestor.samples/1"}, {"checkpoint", checkpoint.string()}};
  constexpr std::size_t batch = 16;
  Progress progress("sample", static_cast<std::int64_t>(texts.size() + pictures.size()));
  std::string text;
  json["read"] = nlohmann::ordered_json::array();
  for (std::size_t first = 0; first < pictures.size(); first += batch) {
    auto last = std::min(first + batch, pictures.size());
    auto read = sampling.read(torch::stack(std::vector<torch::Tensor>(
        pictures.begin() + static_cast<std::ptrdiff_t>(first), pictures.begin() + static_cast<std::ptrdiff_t>(last))));
    for (std::size_t i = 0; i < read.size(); ++i) {
      text += fmt::format("{}: {}\n", names[first + i], read[i]);
      json["read"].push_back({{own ? "name" : "file", names[first + i]}, {"read", read[i]}});
    }
    progress.update(static_cast<std::int64_t>(last), "");
  }
  std::vector<torch::Tensor> drawn;
  for (std::size_t first = 0; first < texts.size(); first += batch) {
    auto last = std::min(first + batch, texts.size());
    drawn.push_back(sampling.draw(
        {texts.begin() + static_cast<std::ptrdiff_t>(first), texts.begin() + static_cast<std::ptrdiff_t>(last)},
        options.seed + first));
    progress.update(static_cast<std::int64_t>(pictures.size() + last), "");
  }
  progress.finish();
  if (!drawn.empty()) {
    auto columns = own ? std::min<std::int64_t>(8, static_cast<std::int64_t>(texts.size())) : options.count;
    auto scale = std::max<std::int64_t>(1, 128 / std::max<std::int64_t>(1, set.image_size));
    auto sheet = modules::contact_sheet(modules::to_bytes(torch::cat(drawn)), columns, 2, scale);
    write_aside(output, modules::encode_png(sheet));
    text += fmt::format("{}: {}\n", output, fmt::join(texts, ", "));
    json["drawn"] = {{"file", output}, {"columns", columns}, {"texts", texts}};
  }
  write_output(
      "", options.format == "text" ? text : json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  return 0;
}

}  // namespace

void add_generate(CLI::App& program, Session& session) {
  auto options = std::make_shared<GenerateOptions>();
  auto command = program.add_subcommand("generate", "Draw and read with a trained model");
  command->add_option("from", options->from, "Run folder (its newest checkpoint) or checkpoint folder")->required();
  command->add_option("--draw", options->draw, "Draw this text; may be repeated")->expected(1)->take_all();
  command->add_option("--read", options->read, "Name this PNG or JPEG; may be repeated")->expected(1)->take_all();
  command->add_option("-n,--count", options->count, "Pictures per text")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the noise that drawing starts from")->capture_default_str();
  command->add_option("-o,--output", options->output, "Contact sheet of what is drawn; default samples.png");
  command->add_option("--format", options->format, "text or json")->capture_default_str();
  command->footer(
      "Example:\n  nestor generate runs/icons --draw \"edit find\" -n 4 -o find.png\n"
      "  nestor generate runs/icons --read icon.png");
  command->callback(
      [options, &session] { session.action = [options, &session] { return run(*options, session.build); }; });
}

}  // namespace nestor::launch
