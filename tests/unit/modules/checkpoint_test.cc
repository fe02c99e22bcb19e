#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nestor/modules/train/checkpoint.h>

#include "toy_model.h"

namespace nestor::test {
namespace {

namespace fs = std::filesystem;
using modules::CheckpointInfo;
using modules::CheckpointWriter;
using modules::NamedTensors;
using testing::HasSubstr;

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "nestor-checkpoint-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string slurp(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void spit(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  static std::string length_field(std::uint64_t length) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i)));
    return bytes;
  }
  /// What reading this header with `data` bytes behind it says.
  std::string verdict(const std::string& header, std::size_t data) {
    spit(folder_ / "x.safetensors", length_field(header.size()) + header + std::string(data, '\1'));
    return message([&] { modules::read_tensors(folder_ / "x.safetensors"); });
  }
  template <class F>
  static std::string message(F f) {
    try {
      f();
    } catch (const modules::Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "fine";
  }
  NamedTensors example() const {
    return {{"llm.layers.0.weight", torch::arange(12, torch::kFloat32).reshape({3, 4}).t()},
            {"llm.layers.0.weight.exp_avg", torch::rand({4, 3}, torch::kFloat64)},
            {"scalar", torch::tensor(2.5)},
            {"empty", torch::empty({0, 7})},
            {"half", torch::ones({3}, torch::kBFloat16)},
            {"flags", torch::tensor({true, false, true})},
            {"odd", torch::arange(5, torch::kUInt8)},
            {"ids", torch::arange(4, torch::kInt64)}};
  }
  fs::path write(std::int64_t step) {
    const fs::path folder = folder_ / ("step-" + std::to_string(step));
    CheckpointWriter writer(folder);
    auto all = example();
    CheckpointInfo info{step, 42, {}};
    info.files.push_back(writer.write_lane(0, {all.begin(), all.begin() + 3}));
    info.files.push_back(writer.write_lane(1, {all.begin() + 3, all.end()}));
    writer.finish(info);
    return folder;
  }

  fs::path folder_;
};

TEST_F(Checkpoint, FilesComeBackAsTheyWere) {
  const auto tensors = example();
  modules::write_tensors(folder_ / "a.safetensors", tensors);
  const auto back = modules::read_tensors(folder_ / "a.safetensors");
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    auto found = std::find_if(back.begin(), back.end(), [&, &n = name](const auto& entry) { return entry.first == n; });
    ASSERT_NE(found, back.end()) << name;
    EXPECT_EQ(found->second.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(found->second, tensor)) << name;
  }
  const std::set<std::string> some = {"odd", "nothing"};
  EXPECT_EQ(modules::read_tensors(folder_ / "a.safetensors", &some).size(), 1U);
  EXPECT_FALSE(fs::exists(folder_ / "a.safetensors.tmp"));
}

TEST_F(Checkpoint, BrokenFilesAreRefusedByName) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(verdict(good, 8), "fine");
  EXPECT_THAT(verdict(good, 7), HasSubstr("tensor 'a': "));
  EXPECT_THAT(verdict(good, 9), HasSubstr("longer than its tensors"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8), HasSubstr("unknown dtype"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), HasSubstr("shape"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), HasSubstr("shape"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8), HasSubstr("shape"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0),
              HasSubstr("larger than the file"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})", 0),
              HasSubstr("out of range"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), HasSubstr("data_offsets"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), HasSubstr("data_offsets"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), HasSubstr("'a'"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                          "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                      12),
              HasSubstr("tensor 'b' overlaps"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12), HasSubstr("hole before"));
  EXPECT_THAT(verdict(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                          "a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                      8),
              HasSubstr("'a' is there twice"));
  EXPECT_THAT(verdict("[]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(verdict("{", 0), HasSubstr("no JSON"));
  EXPECT_THAT(verdict(std::string(100000, '['), 0), HasSubstr("no JSON"));
  spit(folder_ / "y", length_field(1ULL << 60) + "{}");
  EXPECT_THAT(message([&] { modules::read_tensors(folder_ / "y"); }), HasSubstr("header is too large"));
  spit(folder_ / "y", "1234567");
  EXPECT_THAT(message([&] { modules::read_tensors(folder_ / "y"); }), HasSubstr("shorter than its length"));
  EXPECT_THAT(message([&] { modules::read_tensors(folder_ / "none"); }), HasSubstr("cannot be read: No such file"));
  EXPECT_THAT(message([&] { modules::read_tensors(folder_); }), HasSubstr("no plain file"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message([&] { modules::read_tensors(folder_ / "pipe"); }), HasSubstr("no plain file"));
}

TEST_F(Checkpoint, AFileCutAnywhereIsRefused) {
  modules::write_tensors(folder_ / "a.safetensors", example());
  const std::string whole = slurp(folder_ / "a.safetensors");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    spit(folder_ / "cut.safetensors", whole.substr(0, size));
    ASSERT_NE(message([&] { modules::read_tensors(folder_ / "cut.safetensors"); }), "fine") << size;
  }
}

TEST_F(Checkpoint, AnyNamedSubsetIsReadWhicheverLaneWroteIt) {
  const auto folder = write(5);
  EXPECT_FALSE(fs::exists(folder.string() + ".partial"));
  const auto info = modules::read_checkpoint_info(folder);
  EXPECT_EQ(info.step, 5);
  EXPECT_EQ(info.seed, 42U);
  ASSERT_EQ(info.files.size(), 2U);
  const auto tensors = modules::read_checkpoint(folder, {"ids", "scalar"});
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_THAT(message([&] {
                modules::read_checkpoint(folder, {"ids", "vision.weight"});
              }),
              HasSubstr("has no tensor 'vision.weight'"));
}

TEST_F(Checkpoint, AChangedByteAnywhereIsRefused) {
  const auto folder = write(5);
  std::set<std::string> names;
  for (const auto& [name, tensor] : example()) names.insert(name);
  ASSERT_EQ(modules::read_checkpoint(folder, names).size(), names.size());
  for (const char* file : {"checkpoint.json", "lane-0.safetensors", "lane-1.safetensors"}) {
    const std::string whole = slurp(folder / file);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ 0x11);
      spit(folder / file, broken);
      const std::string said = message([&] { modules::read_checkpoint(folder, names); });
      // White space of the index may change without changing what it says.
      if (said == "fine") {
        ASSERT_TRUE(file[0] == 'c' && std::isspace(static_cast<unsigned char>(whole[at]))) << file << " " << at;
      }
    }
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) {
      spit(folder / file, whole.substr(0, size));
      ASSERT_NE(message([&] { modules::read_checkpoint(folder, names); }), "fine") << file << " cut at " << size;
    }
    spit(folder / file, whole);
  }
  EXPECT_EQ(modules::read_checkpoint(folder, names).size(), names.size());
}

TEST_F(Checkpoint, TheNewestCompleteOneIsFound) {
  EXPECT_FALSE(modules::newest_checkpoint(folder_ / "none").has_value());
  EXPECT_FALSE(modules::newest_checkpoint(folder_).has_value());
  const auto old = write(9), newer = write(10);
  fs::create_directories(folder_ / "step-11.partial");
  fs::create_directories(folder_ / "step-12");
  fs::create_directories(folder_ / "step-99x");
  EXPECT_EQ(modules::newest_checkpoint(folder_), newer);
  std::string bytes = slurp(newer / "lane-1.safetensors");
  bytes.back() = static_cast<char>(bytes.back() + 1);
  spit(newer / "lane-1.safetensors", bytes);
  EXPECT_EQ(modules::newest_checkpoint(folder_), old);
  fs::remove(old / "lane-0.safetensors");
  EXPECT_FALSE(modules::newest_checkpoint(folder_).has_value());
}

TEST_F(Checkpoint, WritingAgainReplacesTheFolder) {
  const auto folder = write(5);
  spit(folder / "stray", "x");
  EXPECT_EQ(write(5), folder);
  EXPECT_FALSE(fs::exists(folder / "stray"));
  EXPECT_FALSE(fs::exists(folder.string() + ".partial"));
  EXPECT_EQ(modules::read_checkpoint(folder, {"ids"}).size(), 1U);
}

TEST_F(Checkpoint, TwoLanesMayNotWriteOneTensor) {
  CheckpointWriter writer(folder_ / "step-1");
  CheckpointInfo info{1, 1, {}};
  for (int lane : {0, 1}) info.files.push_back(writer.write_lane(lane, {{"w", torch::ones({1})}}));
  EXPECT_THAT(message([&] { writer.finish(info); }), HasSubstr("tensor 'w' is in two files"));
  EXPECT_FALSE(fs::exists(folder_ / "step-1"));
}

TEST_F(Checkpoint, NamesLeadNowhereElse) {
  const auto folder = write(5);
  std::string index = slurp(folder / "checkpoint.json");
  EXPECT_THAT(index, HasSubstr("lane-0.safetensors"));
  for (std::size_t at; (at = index.find("lane-0.safetensors")) != std::string::npos;)
    index.replace(at, 18, "../../etc/shadow00");
  spit(folder / "checkpoint.json", index);
  EXPECT_THAT(message([&] { modules::read_checkpoint(folder, {"scalar"}); }), HasSubstr("crc32"));
}

TEST_F(Checkpoint, UnwritableFoldersAreSaid) {
  spit(folder_ / "file", "x");
  EXPECT_THAT(message([&] { CheckpointWriter writer(folder_ / "file" / "step-1"); }), HasSubstr("cannot be made"));
  EXPECT_THAT(message([&] { modules::write_tensors(folder_ / "no" / "a", {}); }), HasSubstr("cannot be written"));
}

TEST_F(Checkpoint, LoadingChecksEverythingBeforeItChangesAnything) {
  Tensor a = torch::zeros({2}), b = torch::zeros({3});
  const NamedTensors target = {{"a", a}, {"b", b}};
  auto load = [&](NamedTensors source) { return message([&] { modules::load_into(target, source, "here"); }); };
  EXPECT_THAT(load({{"a", torch::ones({2})}}), HasSubstr("here: has no tensor 'b'"));
  EXPECT_THAT(load({{"a", torch::ones({2})}, {"b", torch::ones({4})}}), HasSubstr("'b' has another shape"));
  EXPECT_THAT(load({{"a", torch::ones({2})}, {"b", torch::ones({3}, torch::kFloat64)}}),
              HasSubstr("'b' has another dtype"));
  EXPECT_EQ(a.sum().item<float>(), 0);
  EXPECT_EQ(load({{"b", torch::ones({3})}, {"a", torch::ones({2})}, {"c", torch::ones({1})}}), "fine");
  EXPECT_EQ(a.sum().item<float>(), 2);
}

/// Training goes on from a checkpoint as if it had never stopped.
TEST_F(Checkpoint, ResumesWithTheSameNumbers) {
  const auto model = toy_model();
  ToyDataset dataset;
  modules::PartOptions options;
  options.seed = modules::Seed(7);
  auto train = [&](modules::WholeModel& whole, modules::Optimizer& optimizer, std::int64_t from, std::int64_t to) {
    double loss = 0;
    for (std::int64_t step = from; step <= to; ++step)
      loss = modules::reference_step(whole, optimizer, toy_batch({"vat,v", ",t"}, step), dataset).losses.total;
    return loss;
  };
  auto everything = [](const modules::WholeModel& whole, const modules::Optimizer& optimizer) {
    NamedTensors all = whole.parameters();
    for (auto& entry : optimizer.state()) all.push_back(entry);
    return all;
  };
  modules::WholeModel first(model, options);
  modules::Optimizer first_optimizer({}, first.parameters());
  train(first, first_optimizer, 1, 5);
  CheckpointWriter writer(folder_ / "step-5");
  writer.finish({5, 7, {writer.write_lane(0, everything(first, first_optimizer))}});
  const double expected = train(first, first_optimizer, 6, 10);

  options.seed = modules::Seed(7);
  modules::WholeModel second(model, options);
  modules::Optimizer second_optimizer({}, second.parameters());
  const NamedTensors target = everything(second, second_optimizer);
  std::set<std::string> names;
  for (const auto& [name, tensor] : target) names.insert(name);
  modules::load_into(target, modules::read_checkpoint(folder_ / "step-5", names), "step-5");
  EXPECT_EQ(train(second, second_optimizer, 6, 10), expected);
}

}  // namespace
}  // namespace nestor::test
