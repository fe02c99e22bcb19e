#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <nestor/modules/data/collate.h>
#include <nestor/modules/data/random.h>
#include <nestor/modules/data/synthetic.h>
#include <nestor/modules/data/tokenizer.h>
#include <nestor/modules/error.h>

namespace nestor::modules {

struct SyntheticDataset::Content {
  std::vector<std::int64_t> words;
  std::int64_t image_tokens = 0;
  bool labelled = false;
  std::vector<bool> has;  ///< by image
};

SyntheticDataset::SyntheticDataset(SyntheticOptions options) : options_(std::move(options)) {
  const auto check = [](bool fine, const char* field, const char* hint) {
    if (!fine) throw Error(std::string("data.") + field, "is out of range", hint);
  };
  check(options_.samples > 0 && options_.held_out >= 0, "samples", "at least one");
  check(options_.vocabulary > first_word, "vocabulary", "more than 16: the first ids are special tokens");
  check(options_.shortest > 0 && options_.longest >= options_.shortest, "length", "1 <= shortest <= longest");
  check(options_.image_size > 0, "image_size", "at least one pixel");
  check(options_.labels >= 0 && options_.labels <= 1, "labels", "a probability");
  for (const auto& image : options_.images) {
    check(image.probability >= 0 && image.probability <= 1, image.input.c_str(), "a probability");
    check(image.tokens >= 0 && image.placeholder < first_word, image.input.c_str(), "a placeholder below 16");
  }
}

std::int64_t SyntheticDataset::size(Split split) const {
  return split == Split::train ? options_.samples : options_.held_out;
}

Seed SyntheticDataset::stream(const Sample& sample) const {
  if (sample.id < 0 || sample.id >= size(sample.split)) {
    throw Error("sample " + std::to_string(sample.id), "is not in this split", "ids run from 0 to size(split) - 1");
  }
  return options_.seed.child(sample.split == Split::train ? "train" : "held out").child(sample.id).child(sample.draw);
}

SyntheticDataset::Content SyntheticDataset::content(const Sample& sample) const {
  RandomStream random(stream(sample));
  const auto present = [&](std::string_view input, double probability) {
    const bool drawn = random.uniform() < probability;
    return options_.presence ? options_.presence(sample, input, drawn) : drawn;
  };
  Content content;
  content.words.resize(
      static_cast<std::size_t>(options_.shortest + random.below(options_.longest - options_.shortest + 1)));
  for (auto& word : content.words) word = first_word + random.below(options_.vocabulary - first_word);
  content.labelled = present("labels", options_.labels);
  for (const auto& image : options_.images) {
    content.has.push_back(present(image.input, image.probability));
    if (content.has.back()) content.image_tokens += image.tokens;
  }
  return content;
}

Sample SyntheticDataset::describe(Split split, std::int64_t id, std::int32_t draw) const {
  Sample sample{id, draw, split, {}};
  const Content of = content(sample);
  const auto words = static_cast<std::int64_t>(of.words.size());
  sample.counts["tokens"] = 1 + of.image_tokens + words;
  if (of.labelled) sample.counts["labels"] = words + 1;
  for (std::size_t i = 0; i < of.has.size(); ++i) {
    if (of.has[i]) sample.counts[options_.images[i].input] = 1;
  }
  return sample;
}

Tensor SyntheticDataset::read(std::string_view input, const Microbatch& microbatch) const {
  const bool tokens = input == "tokens";
  if (!tokens && input != "labels") return images(input, microbatch);
  if (!microbatch.has(input)) return {};
  std::vector<std::vector<std::int64_t>> rows;
  for (const auto& sample : microbatch.samples) {
    const Content of = content(sample);
    std::vector<std::int64_t> row = {id(SpecialToken::begin)};
    for (std::size_t i = 0; i < of.has.size(); ++i) {
      const auto& image = options_.images[i];
      if (of.has[i]) row.insert(row.end(), static_cast<std::size_t>(image.tokens), image.placeholder);
    }
    if (tokens) {
      row.insert(row.end(), of.words.begin(), of.words.end());
    } else {
      // The last position before the words predicts the first of them.
      row.assign(row.size() + of.words.size(), ignored_label);
      if (of.labelled) {
        std::copy(of.words.begin(), of.words.end(), row.end() - static_cast<std::ptrdiff_t>(of.words.size()) - 1);
        row.back() = id(SpecialToken::end);
      }
    }
    rows.push_back(std::move(row));
  }
  return collate_tokens(rows, tokens ? id(SpecialToken::pad) : ignored_label);
}

Tensor SyntheticDataset::images(std::string_view input, const Microbatch& microbatch) const {
  const bool known = std::any_of(options_.images.begin(), options_.images.end(),
                                 [&](const SyntheticImage& image) { return image.input == input; });
  if (!known) {
    throw Error("input \"" + std::string(input) + "\"", "this data has no such input", "declare it in data.images");
  }
  const std::int64_t count = microbatch.count(input), side = options_.image_size;
  if (count == 0) return {};
  auto batch = torch::empty({count, 3, side, side}, torch::kFloat32);
  auto* out = batch.data_ptr<float>();
  for (const auto& sample : microbatch.samples) {
    if (!sample.has(input)) continue;
    RandomStream random(stream(sample).child(input));
    out = std::generate_n(out, 3 * side * side, [&] { return static_cast<float>(2 * random.uniform() - 1); });
  }
  return batch;
}

std::string SyntheticDataset::caption(const Sample& sample) const {
  return fmt::format("{}", fmt::join(content(sample).words, " "));
}

}  // namespace nestor::modules
