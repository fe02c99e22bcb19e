#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <nestor/modules/error.h>
#include <nestor/modules/model_config.h>

namespace nestor::modules {
namespace {

DatasetInfo info() {
  DatasetInfo info;
  info.vocabulary_size = 300;
  info.image_size = 16;
  info.placeholders["pixels"] = 3;
  return info;
}

Model read(const std::string& yaml) {
  return model_from_config(YAML::Load(yaml), info(), "a.yaml");
}

std::string error_of(const std::string& yaml) {
  try {
    read(yaml);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ModelConfig, BuildsWhatTheFileSays) {
  auto model = read(R"(
encoders: {vision: {kind: vit, patch: 4, width: 16, layers: 1, heads: 2}, detail: {kind: vit, patch: 8, width: 16}}
llm: {kind: qwen3, layers: 3, width: 16, heads: 4, kv_heads: 2, experts: 4, top_k: 2, balance_weight: 0.5}
generators: {image: {kind: mmdit, inputs: [llm, vision], width: 16, layers: 1, weight: 2}}
frozen: [vision.blocks.*]
)");
  std::vector<std::string> names;
  for (const auto& node : model.nodes()) names.push_back(node.name);
  EXPECT_THAT(names, ::testing::ElementsAre("tokens", "labels", "pixels", "vision", "detail", "llm", "text", "target",
                                            "image"));
  EXPECT_EQ(model.llm_node().factories.size(), 4u);
  EXPECT_EQ(model.canonical("text.weight"), "llm.layers.0.weight");
  EXPECT_TRUE(model.frozen("vision.blocks.0.qkv.weight"));
  EXPECT_FALSE(model.frozen("vision.projector.fc1.weight"));
  ASSERT_EQ(model.losses().size(), 2u);
  EXPECT_EQ(model.losses()[1].name, "balance");
  EXPECT_EQ(model.losses()[1].weight, 0.5);
  Sample sample;
  sample.counts["tokens"] = 9;
  EXPECT_EQ(model.losses()[1].loss.count(sample), 3);
  EXPECT_EQ(model.find("image")->weight, 2);
  EXPECT_EQ(model.find("image")->inputs.size(), 3u);
  auto embedding = model.llm_node().factories[0](Seed(1));
  EXPECT_EQ(embedding->parameters()[0].sizes(), (std::vector<std::int64_t>{300, 16}));
}

TEST(ModelConfig, TextAloneIsAModelAndUntiedHeadsStayUntied) {
  auto model = read("llm: {kind: qwen3, layers: 1, tied: false}");
  EXPECT_TRUE(model.ties().empty());
  EXPECT_EQ(model.find("pixels"), nullptr);
  EXPECT_EQ(model.find("target"), nullptr);
}

TEST(ModelConfig, CountsTheTokensOfAPicture) {
  auto node = YAML::Load("encoders: {a: {kind: vit, patch: 4}, b: {kind: vit, patch: 8}}");
  EXPECT_EQ(image_tokens(node, 16, "a.yaml"), 16 + 4);
  EXPECT_EQ(image_tokens(node, 18, "a.yaml"), 25 + 9);
  EXPECT_EQ(image_tokens(YAML::Load("{}"), 18, "a.yaml"), 0);
}

TEST(ModelConfig, SaysWhatIsWrongAndWhere) {
  const std::string llm = "llm: {kind: qwen3, ";
  EXPECT_EQ(error_of("{}"), "a.yaml:model.llm: is missing (a model has one: llm: {kind: qwen3, ...})");
  EXPECT_EQ(error_of(llm + "layers: 0}"), "a.yaml:model.llm.layers: is 0, outside 1 to 4096");
  EXPECT_EQ(error_of(llm + "layers: 1e3}"), "a.yaml:model.llm.layers: \"1e3\" is not a whole number");
  EXPECT_EQ(error_of(llm + "layers: 99999999999999999999}"),
            "a.yaml:model.llm.layers: \"99999999999999999999\" is not a whole number");
  EXPECT_EQ(error_of(llm + "layers: [1]}"), "a.yaml:model.llm.layers: is not a whole number");
  EXPECT_EQ(error_of(llm + "balance_weight: .nan}"),
            "a.yaml:model.llm.balance_weight: \".nan\" is not a finite number");
  EXPECT_EQ(error_of(llm + "tied: maybe}"), "a.yaml:model.llm.tied: \"maybe\" is neither true nor false");
  EXPECT_THAT(error_of(llm + "depth: 3}"), ::testing::StartsWith("a.yaml:model.llm: unknown key \"depth\" (known: "));
  EXPECT_EQ(error_of("llm: {kind: llama}"), "a.yaml:model.llm.kind: has no choice \"llama\" (one of qwen3)");
  EXPECT_EQ(error_of(llm + "heads: 4, kv_heads: 3}"),
            "a.yaml:model.llm.kv_heads: does not divide heads (heads share them)");
  EXPECT_EQ(error_of(llm + "experts: 2, top_k: 3}"),
            "a.yaml:model.llm.top_k: is more than experts (a token goes to top_k of them)");
  EXPECT_EQ(error_of("llm: 7"), "a.yaml:model.llm: is not a mapping (write \"key: value\" lines below it)");
  EXPECT_THAT(error_of("llm: {}\nencoders: {v: {kind: vit, width: 30}}"),
              ::testing::StartsWith("a.yaml:model.encoders.v.width: is no multiple of 4"));
  EXPECT_EQ(error_of("llm: {}\nencoders: {text: {kind: vit}}"),
            "a.yaml:model.encoders.text: the name is taken (choose another)");
  EXPECT_THAT(error_of("llm: {}\ngenerators: {image: {kind: mmdit, inputs: [llm, nobody]}}"),
              ::testing::HasSubstr("a.yaml:model.generators.image.inputs: no encoder is named nobody"));
  EXPECT_THAT(error_of("llm: {}\nencoders: {vision: {kind: vit}}\ngenerators: {vision: {kind: mmdit}}"),
              ::testing::HasSubstr("vision"));
  auto blind = info();
  blind.placeholders.clear();
  EXPECT_THROW(model_from_config(YAML::Load("llm: {}\nencoders: {vision: {kind: vit}}"), blind, "a.yaml"), Error);
  EXPECT_THAT(error_of("llm: {layers: 1, layers: 2}"), ::testing::HasSubstr("twice"));
  EXPECT_THAT(error_of("llm: {}\nextra: 1"), ::testing::StartsWith("a.yaml:model: unknown key \"extra\""));
}

}  // namespace
}  // namespace nestor::modules
