#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/launch/config.h>
#include <nestor/launch/error.h>
#include <nestor/launch/yaml_file.h>
#include <nestor/modules/suggest.h>

namespace nestor::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kConfig =
    "format: nestor.train/1\n"
    "run: {dir: runs/x, steps: 7}\n"
    "data: {kind: synthetic}\n"
    "model: {llm: {kind: qwen3}}\n"
    "schedule: {stages: 3, pools: {vision: 4, image: [2, 0]}}\n";

std::string failure(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    read_config(text, "c.yaml", overrides);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Config, ReadsWhatIsThereAndKeepsDefaults) {
  auto config = read_config(kConfig, "c.yaml", {});
  EXPECT_EQ(config.run.steps, 7);
  EXPECT_EQ(config.run.seed, 1u);
  EXPECT_EQ(config.schedule.policy, "nested");
  EXPECT_THAT(config.schedule.pools.at("vision"), ElementsAre(0, 1, 2, 0));  // member i on lane i mod stages
  EXPECT_THAT(config.schedule.pools.at("image"), ElementsAre(2, 0));
  EXPECT_EQ(config.optimizer.beta2, 0.999);
}

TEST(Config, OverridesReplaceAndAdd) {
  auto config = read_config(kConfig, "c.yaml",
                            {"run.steps=9", "optimizer.lr=0.25", "schedule.pools.vision=[1]", "run.steps=11",
                             "run.dtype=float64", "data={kind: image_folder, path: x}"});
  EXPECT_EQ(config.run.steps, 11);
  EXPECT_EQ(config.optimizer.lr, 0.25);
  EXPECT_EQ(config.run.dtype, torch::kFloat64);
  EXPECT_THAT(config.schedule.pools.at("vision"), ElementsAre(1));
  EXPECT_EQ(config.data["path"].as<std::string>(), "x");
}

TEST(Config, WritesWhatItReads) {
  auto config = read_config(kConfig, "c.yaml", {"optimizer.lr=0.1", "optimizer.weight_decay=1e-17"});
  auto text = write_config(config);
  auto again = read_config(text, "again.yaml", {});
  EXPECT_EQ(write_config(again), text);
  EXPECT_EQ(again.optimizer.lr, 0.1);
  EXPECT_EQ(again.optimizer.weight_decay, 1e-17);
  EXPECT_EQ(again.schedule.pools, config.schedule.pools);
  EXPECT_EQ(again.model["llm"]["kind"].as<std::string>(), "qwen3");
}

TEST(Config, NamesPlaceAndReason) {
  EXPECT_THAT(failure(""), HasSubstr("c.yaml: is empty"));
  EXPECT_THAT(failure("a: [1"), HasSubstr("c.yaml:1"));
  EXPECT_THAT(failure("- 1\n"), HasSubstr("c.yaml:1: is not a mapping"));
  EXPECT_THAT(failure("run: {}\n"), HasSubstr("c.yaml:format: is missing"));
  EXPECT_THAT(failure(kConfig, {"run.stepz=1"}), HasSubstr("\"stepz\""));
  EXPECT_THAT(failure(kConfig, {"run.steps=0"}), HasSubstr("c.yaml:run.steps: is 0"));
  EXPECT_THAT(failure(kConfig, {"run.steps=1.5"}), HasSubstr("run.steps"));
  EXPECT_THAT(failure(kConfig, {"schedule.policy=nestled"}), HasSubstr("nested"));
  EXPECT_THAT(failure(kConfig, {"schedule.pools.vision=[x]"}), HasSubstr("schedule.pools.vision"));
  EXPECT_THAT(failure(kConfig, {"schedule.pools.vision=[]"}), HasSubstr("schedule.pools.vision"));
  EXPECT_THAT(failure(kConfig, {"optimizer.lr=.nan"}), HasSubstr("optimizer.lr"));
  EXPECT_THAT(failure(kConfig, {"run.steps"}), HasSubstr("--set run.steps: is not of the form key=value"));
  EXPECT_THAT(failure(kConfig, {"run.steps.more=1"}), HasSubstr("\"run.steps\" is not a mapping"));
  EXPECT_THAT(failure(kConfig, {"run.steps=[1"}), HasSubstr("--set run.steps: the value is not YAML"));
  EXPECT_THAT(failure(kConfig, {".steps=1"}), HasSubstr("empty part"));
  EXPECT_THAT(failure(kConfig, {"runs.steps=1"}), HasSubstr("runs"));
}

TEST(Suggest, FindsNearNames) {
  std::vector<std::string> known{"steps", "seed", "dir"};
  EXPECT_EQ(modules::nearest("stepz", known), "steps");
  EXPECT_EQ(modules::nearest("setps", known), "steps");
  EXPECT_EQ(modules::nearest("sed", known), "seed");
  EXPECT_EQ(modules::nearest("microbatches", known), "");
  EXPECT_EQ(modules::did_you_mean("whatever", known), "known: steps, seed, dir");
}

}  // namespace
}  // namespace nestor::launch
