#include <functional>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <nestor/modules/data/dataset_config.h>
#include <nestor/modules/data/image_text_dataset.h>
#include <nestor/modules/data/random.h>
#include <nestor/modules/data/synthetic.h>

#include "data_testing.h"

namespace nestor::modules {
namespace {

using testing::error_of;
using testing::TestFolder;
using testing::write_pictures;

DatasetOptions options_for(const TestFolder& folder) {
  DatasetOptions options;
  options.image_tokens = [](std::int64_t size) { return size / 4 * (size / 4); };
  options.seed = Seed(7);
  options.base = folder.path();
  return options;
}

LoadedDataset load(const TestFolder& folder, const std::string& yaml) {
  return make_dataset(YAML::Load(yaml), options_for(folder));
}

// ---- conformance: what every dataset promises -----------------------------------------------------------------------

/// A kind of dataset: its files, then its `data` section. A new kind joins by a row.
struct Kind {
  const char* name;
  std::function<void(const TestFolder&)> files;
  const char* yaml;
};

const auto no_files = [](const TestFolder&) {};
const auto ten_pictures = [](const TestFolder& folder) { write_pictures(folder, 10, 8); };

const std::vector<Kind> kinds = {
    {"names", ten_pictures, "{path: ., image_size: 8, held_out: 2}"},
    {"all_tasks", ten_pictures,
     "{path: ., image_size: 8, tasks: {read: 1, draw: 2, text: 1}, held_out: 0.3, label_drawn: true, drop_caption: "
     "0.4, "
     "augment: 2}"},
    {"links",
     [](const TestFolder& folder) {
       ten_pictures(folder);
       std::filesystem::create_symlink("a.png", folder / "alpha.png");
       std::filesystem::create_symlink("a.png", folder / "first-of-all.png");
       std::filesystem::create_symlink("b.png", folder / "beta.png");
     },
     "{path: ., image_size: 12, held_out: {pictures: 1, captions: 2}}"},
    {"table",
     [](const TestFolder& folder) {
       ten_pictures(folder);
       folder.file("manifest.jsonl", R"({"image": "a.png", "caption": "the first"}
{"image": "b.png", "caption": "the second", "split": "held_out"}
{"image": "a.png", "caption": "unsaid", "split": "held_out"})");
     },
     "{path: ., image_size: 4, tokens: characters}"},
    {"synthetic", no_files, "{kind: synthetic, samples: 40, held_out: 9, image_size: 8}"},
    {"text_only", no_files, "{kind: synthetic, samples: 20, pixels: {}, targets: {}, labels: 0.5}"},
    {"two_of_each", no_files,
     "{kind: synthetic, samples: 30, image_size: 8, pixels: {pixels: 0.7, sketch: 0.4}, targets: {target: 0.5, depth: "
     "1}}"},
};

class DatasetConformance : public ::testing::TestWithParam<Kind> {
 protected:
  DatasetConformance() {
    GetParam().files(folder_);
    loaded_ = load(folder_, GetParam().yaml);
  }
  const Dataset& data() const { return *loaded_.dataset; }

  /// Every id of both splits and the draws 0 to 2, in groups of `size`.
  std::vector<Microbatch> microbatches(std::size_t size) const {
    std::vector<Microbatch> all;
    for (const Split split : {Split::train, Split::held_out}) {
      std::vector<Sample> samples;
      for (std::int64_t id = 0; id < data().size(split); ++id) {
        for (std::int32_t draw = 0; draw < 3; ++draw) samples.push_back(data().describe(split, id, draw));
      }
      for (std::size_t i = 0; i < samples.size(); i += size) {
        const auto end = samples.begin() + static_cast<std::ptrdiff_t>(std::min(i + size, samples.size()));
        all.push_back({3, 0, {samples.begin() + static_cast<std::ptrdiff_t>(i), end}});
      }
    }
    return all;
  }

  std::set<std::string> inputs() const {
    std::set<std::string> names;
    for (const auto& microbatch : microbatches(1)) {
      for (const auto& [input, count] : microbatch.samples[0].counts) names.insert(input);
    }
    return names;
  }

  TestFolder folder_;
  LoadedDataset loaded_;
};

TEST_P(DatasetConformance, GroupsCoverEveryIdOnce) {
  for (const Split split : {Split::train, Split::held_out}) {
    std::int64_t next = 0;
    for (const auto& group : data().groups(split)) {
      EXPECT_EQ(group.first, next);
      EXPECT_GT(group.weight, 0);
      next += group.size;
    }
    EXPECT_EQ(next, data().size(split));
  }
  EXPECT_GT(data().size(Split::train), 0);
}

TEST_P(DatasetConformance, DescriptorsAreWhatIsRead) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{5}}) {
    for (const auto& microbatch : microbatches(size)) {
      const auto rows = static_cast<std::int64_t>(microbatch.samples.size());
      const auto tokens = data().read("tokens", microbatch), labels = data().read("labels", microbatch);
      ASSERT_EQ(tokens.sizes(), (std::vector<std::int64_t>{rows, microbatch.max_count("tokens")}));
      ASSERT_EQ(tokens.scalar_type(), torch::kInt64);
      EXPECT_LT(tokens.max().item<std::int64_t>(), loaded_.info.vocabulary_size);
      EXPECT_EQ(labels.defined(), microbatch.has("labels"));
      if (labels.defined()) {
        EXPECT_EQ(labels.sizes(), tokens.sizes());
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto& sample = microbatch.samples[static_cast<std::size_t>(row)];
        const std::int64_t length = sample.count("tokens");
        EXPECT_GT(length, 0);
        EXPECT_EQ(tokens[row].narrow(0, length, tokens.size(1) - length).ne(id(SpecialToken::pad)).sum().item<int>(),
                  0);
        EXPECT_EQ(tokens[row].narrow(0, 0, length).eq(id(SpecialToken::pad)).sum().item<int>(), 0);
        if (labels.defined()) {
          EXPECT_EQ(labels[row].ne(ignored_label).sum().item<std::int64_t>(), sample.count("labels"));
        }
        for (const auto& [input, placeholder] : loaded_.info.placeholders) {
          EXPECT_EQ(tokens[row].eq(placeholder).sum().item<std::int64_t>(),
                    sample.count(input) * loaded_.info.image_tokens);
        }
      }
    }
  }
}

TEST_P(DatasetConformance, ImagesAreThoseOfTheSamplesThatHaveOne) {
  const std::int64_t side = loaded_.info.image_size;
  for (const auto& input : inputs()) {
    if (input == "tokens" || input == "labels") continue;
    for (const auto& microbatch : microbatches(4)) {
      const auto images = data().read(input, microbatch);
      ASSERT_EQ(images.defined(), microbatch.has(input));
      if (!images.defined()) continue;
      EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{microbatch.count(input), 3, side, side}));
      EXPECT_EQ(images.scalar_type(), torch::kFloat32);
      EXPECT_GE(images.min().item<float>(), -1.0F);
      EXPECT_LE(images.max().item<float>(), 1.0F);
    }
  }
}

TEST_P(DatasetConformance, ASampleIsTheSameInAnyCompany) {
  for (const auto& microbatch : microbatches(6)) {
    for (const auto& input : inputs()) {
      const auto together = data().read(input, microbatch);
      std::int64_t row = 0;
      for (const auto& sample : microbatch.samples) {
        const auto alone = data().read(input, {3, 0, {sample}});
        if (input != "tokens" && input != "labels") {
          ASSERT_EQ(alone.defined(), sample.has(input));
          if (alone.defined()) {
            EXPECT_TRUE(alone[0].equal(together[row++]));
          }
        } else if (alone.defined()) {
          EXPECT_TRUE(alone[0].equal(together[row].narrow(0, 0, alone.size(1))));
          ++row;
        } else {
          ++row;
        }
      }
    }
  }
}

TEST_P(DatasetConformance, AnotherInstanceAndOtherThreadsReadTheSame) {
  const auto other = load(folder_, GetParam().yaml);
  const auto all = microbatches(4);
  const auto names = inputs();
  const auto same = [&](const Dataset& dataset) {
    bool equal = true;
    for (const auto& microbatch : all) {
      for (const auto& sample : microbatch.samples) {
        equal &= dataset.describe(sample.split, sample.id, sample.draw).counts == sample.counts;
        equal &= dataset.caption(sample) == data().caption(sample);
      }
      for (const auto& input : names) {
        const auto one = dataset.read(input, microbatch), two = data().read(input, microbatch);
        equal &= one.defined() == two.defined() && (!one.defined() || one.equal(two));
      }
    }
    return equal;
  };
  std::vector<char> equal(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < equal.size(); ++i) {
    threads.emplace_back([&, i] { equal[i] = same(i % 2 == 0 ? *other.dataset : data()); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<char>(4, 1));
}

TEST_P(DatasetConformance, WrongQuestionsAreErrors) {
  error_of([&] { data().describe(Split::train, data().size(Split::train), 0); });
  error_of([&] { data().describe(Split::held_out, -1, 0); });
  error_of([&] { data().read("nonsense", microbatches(2)[0]); });
  EXPECT_FALSE(data().read("tokens", Microbatch{}).defined());
}

INSTANTIATE_TEST_SUITE_P(Kinds, DatasetConformance, ::testing::ValuesIn(kinds),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- picture folders ------------------------------------------------------------------------------------------------

TEST(DataImageText, HeldOutDoesNotDependOnTheSeedAndIsDisjoint) {
  TestFolder folder;
  write_pictures(folder, 20, 4);
  const auto captions = [&](std::uint64_t seed, Split split) {
    auto options = options_for(folder);
    options.seed = Seed(seed);
    const auto data = make_dataset(YAML::Load("{path: ., image_size: 4, held_out: 0.25, tasks: read}"), options);
    std::set<std::string> names;
    for (std::int64_t id = 0; id < data.dataset->size(split); ++id) {
      names.insert(data.dataset->caption(data.dataset->describe(split, id, 0)));
    }
    return names;
  };
  const auto out = captions(1, Split::held_out), in = captions(1, Split::train);
  EXPECT_EQ(out.size(), 5U);
  EXPECT_EQ(in.size(), 15U);
  for (const auto& name : out) EXPECT_EQ(in.count(name), 0U);
  EXPECT_EQ(captions(2, Split::held_out), out);
}

TEST(DataImageText, FurtherCaptionsAreDrawnAndSomeHeldOut) {
  TestFolder folder;
  write_pictures(folder, 1, 4);
  for (const char* name : {"x.png", "y.png", "z.png"}) std::filesystem::create_symlink("a.png", folder / name);
  const auto loaded = load(folder, "{path: ., image_size: 4, held_out: {captions: 1}}");
  const auto& data = *loaded.dataset;
  ASSERT_EQ(data.size(Split::train), 2);
  ASSERT_EQ(data.size(Split::held_out), 1);  // drawn only: the picture is read by its first caption
  const auto held_out = data.describe(Split::held_out, 0, 0);
  EXPECT_TRUE(held_out.has("target"));
  std::map<std::string, int> drawn;
  for (std::int32_t draw = 0; draw < 400; ++draw) {
    EXPECT_EQ(data.caption(data.describe(Split::train, 0, draw)), "a");
    ++drawn[data.caption(data.describe(Split::train, 1, draw))];
  }
  EXPECT_EQ(drawn.count(data.caption(held_out)), 0U);
  EXPECT_EQ(drawn.size(), 3U);
  EXPECT_NEAR(drawn["a"], 200, 50);
  EXPECT_EQ(load(folder, "{path: ., image_size: 4, all_captions: false}").info.vocabulary_size, special_tokens + 257);
}

TEST(DataImageText, AugmentationMovesWhatIsReadAndNothingElse) {
  TestFolder folder;
  auto dot = torch::full({3, 8, 8}, 255, torch::kUInt8);
  dot.select(1, 4).select(1, 4).fill_(0);
  write_png(folder / "dot.png", dot);
  const auto loaded = load(folder, "{path: ., image_size: 8, augment: 1, tasks: [read, draw]}");
  std::set<std::pair<int, int>> places;
  for (std::int32_t draw = 0; draw < 200; ++draw) {
    const auto image = loaded.dataset->read("pixels", {0, 0, {loaded.dataset->describe(Split::train, 0, draw)}})[0][0];
    const auto at = image.argmin().item<int>();
    EXPECT_EQ(image.lt(0).sum().item<int>(), 1);
    places.emplace(at / 8, at % 8);
    const auto target = loaded.dataset->read("target", {0, 0, {loaded.dataset->describe(Split::train, 1, draw)}});
    EXPECT_TRUE(to_bytes(target[0]).equal(dot));
  }
  EXPECT_EQ(places.size(), 9U);
}

TEST(DataImageText, DroppedCaptionsLeaveAnEmptyPrompt) {
  TestFolder folder;
  write_pictures(folder, 1, 4);
  const auto loaded = load(folder, "{path: ., image_size: 4, tasks: draw, drop_caption: 0.25}");
  int dropped = 0;
  for (std::int32_t draw = 0; draw < 1000; ++draw) {
    const auto sample = loaded.dataset->describe(Split::train, 0, draw);
    if (loaded.dataset->caption(sample).empty()) {
      ++dropped;
      EXPECT_EQ(sample.count("tokens"), static_cast<std::int64_t>(draw_prompt(*loaded.info.tokenizer, "").size()));
    }
  }
  EXPECT_NEAR(dropped, 250, 60);
}

TEST(DataImageText, PicturesBeyondTheCacheAreReadEachTime) {
  TestFolder folder;
  write_pictures(folder, 5, 4);
  ImageTextOptions options;
  options.image_size = 4;
  options.cache_bytes = 2 * 48;
  const ImageTextDataset few(read_manifest(folder.path()), Tokenizer(), options);
  options.cache_bytes = 1 << 20;
  const ImageTextDataset all(read_manifest(folder.path()), Tokenizer(), options);
  for (std::int64_t id = 0; id < 5; ++id) {
    const auto sample = few.describe(Split::train, id, 0);
    EXPECT_TRUE(few.picture(sample).equal(all.picture(sample)));
  }
  folder.file("e.png", "torn");
  error_of([&] { few.picture(few.describe(Split::train, 4, 0)); });
}

TEST(DataImageText, ALoadedVocabularyIsKept) {
  TestFolder folder;
  write_pictures(folder, 3, 4);
  const auto first = load(folder, "{path: ., image_size: 4}");
  first.info.tokenizer->save(folder / "vocabulary.json");
  auto options = options_for(folder);
  options.vocabulary = folder / "vocabulary.json";
  const auto limited = make_dataset(YAML::Load("{path: ., image_size: 4, limit: 1}"), options);
  EXPECT_EQ(*limited.info.tokenizer, *first.info.tokenizer);
  EXPECT_EQ(load(folder, "{path: ., image_size: 4, limit: 1}").info.vocabulary_size, special_tokens + 257);
}

TEST(DataImageText, SelectionByPatternAndLimit) {
  TestFolder folder;
  write_pictures(folder, 6, 4);
  EXPECT_EQ(
      load(folder, "{path: ., image_size: 4, include: [\"[ab].*\", f.png], tasks: read}").dataset->size(Split::train),
      3);
  EXPECT_EQ(load(folder, "{path: ., image_size: 4, include: \"?.png\", limit: 2}").dataset->size(Split::train), 4);
}

// ---- synthetic ------------------------------------------------------------------------------------------------------

TEST(DataSynthetic, PresenceCanBeForced) {
  SyntheticOptions options;
  options.images = {{"pixels", 1.0, 4, 3}, {"target", 0.0, 0, 0}};
  options.presence = [](const Sample& sample, std::string_view input, bool drawn) {
    return input == "pixels" ? sample.id % 2 == 0 : drawn;
  };
  const SyntheticDataset data(options);
  for (std::int64_t id = 0; id < 20; ++id) {
    const auto sample = data.describe(Split::train, id, 0);
    EXPECT_EQ(sample.has("pixels"), id % 2 == 0);
    EXPECT_FALSE(sample.has("target"));
  }
}

TEST(DataSynthetic, LengthsDiffer) {
  TestFolder folder;
  const auto loaded = load(folder, "{kind: synthetic, shortest: 3, longest: 6, pixels: {}}");
  std::set<std::int64_t> lengths;
  for (std::int64_t id = 0; id < 200; ++id) {
    lengths.insert(loaded.dataset->describe(Split::train, id, 0).count("tokens"));
  }
  EXPECT_EQ(lengths, (std::set<std::int64_t>{4, 5, 6, 7}));
}

// ---- configuration --------------------------------------------------------------------------------------------------

TEST(DataConfig, BrokenSectionsNameTheField) {
  TestFolder folder;
  write_pictures(folder, 4, 4);
  folder.file(".torn/a.png", "\x89PNG torn");
  folder.file(".text/a.png", "I am a text.");
  auto options = options_for(folder);
  options.where = "icons.yaml:data";
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"7", "icons.yaml:data: is not a mapping"},
      {"{}", "icons.yaml:data.path: is missing"},
      {"{kind: movie, path: .}", "icons.yaml:data.kind: has no choice"},
      {"{kind: [a], path: .}", "icons.yaml:data.kind"},
      {"{path: missing}", "does not exist"},
      {"{path: a.png}", "is not a folder"},
      {"{path: [a]}", "icons.yaml:data.path"},
      {"{path: ., paht: x}", "unknown key \"paht\""},
      {"{path: ., path: x}", "has the key \"path\" twice"},
      {"{path: ., image_size: 0}", "icons.yaml:data.image_size"},
      {"{path: ., image_size: 1e3}", "icons.yaml:data.image_size"},
      {"{path: ., image_size: 99999999999999999999}", "icons.yaml:data.image_size"},
      {"{path: ., image_size: -4}", "icons.yaml:data.image_size"},
      {"{path: ., held_out: nan}", "icons.yaml:data.held_out"},
      {"{path: ., held_out: -1}", "icons.yaml:data.held_out"},
      {"{path: ., held_out: 1.5}", "icons.yaml:data.held_out"},
      {"{path: ., held_out: 4}", "all its pictures are held out"},
      {"{path: ., held_out: {picture: 1}}", "unknown key \"picture\""},
      {"{path: ., tasks: []}", "icons.yaml:data.tasks"},
      {"{path: ., tasks: [sing]}", "icons.yaml:data.tasks"},
      {"{path: ., tasks: [read, read]}", "icons.yaml:data.tasks"},
      {"{path: ., tasks: {read: 0}}", "icons.yaml:data.tasks.read"},
      {"{path: ., tasks: {read: 1.5}}", "icons.yaml:data.tasks.read"},
      {"{path: ., drop_caption: 2}", "icons.yaml:data.drop_caption"},
      {"{path: ., augment: 17}", "icons.yaml:data.augment"},
      {"{path: ., fit: squeeze}", "icons.yaml:data.fit"},
      {"{path: ., captions: guess}", "icons.yaml:data.captions"},
      {"{path: ., captions: table}", "has neither manifest.jsonl nor captions.tsv"},
      {"{path: ., include: [\"nope*\"]}", "matches no picture"},
      {"{path: ., include: []}", "icons.yaml:data.include"},
      {"{path: ., tokens: syllables}", "icons.yaml:data.tokens"},
      {"{path: .torn}", "torn/a.png: is not a readable PNG"},
      {"{path: .text}", "text/a.png: is neither a PNG nor a JPEG"},
      {"{kind: synthetic, path: .}", "unknown key \"path\""},
      {"{kind: synthetic, samples: 0}", "icons.yaml:data.samples"},
      {"{kind: synthetic, shortest: 9, longest: 3}", "icons.yaml:data.longest"},
      {"{kind: synthetic, vocabulary: 3}", "icons.yaml:data.vocabulary"},
      {"{kind: synthetic, pixels: {pixels: 1.5}}", "icons.yaml:data.pixels.pixels"},
      {"{kind: synthetic, pixels: {a: 1}, targets: {a: 1}}", "icons.yaml:data.targets.a"},
      {"{kind: synthetic, pixels: {tokens: 1}}", "icons.yaml:data.pixels.tokens"},
  };
  for (const auto& [yaml, what] : cases) {
    const auto text = error_of([&, section = yaml] { make_dataset(YAML::Load(section), options); });
    EXPECT_NE(text.find(what), std::string::npos) << yaml << "\n" << text;
  }
  options.image_tokens = [](std::int64_t) { return -1; };
  EXPECT_NE(error_of([&] { make_dataset(YAML::Load("{path: .}"), options); }).find("does not fit the encoder"),
            std::string::npos);
}

}  // namespace
}  // namespace nestor::modules
