#include <nestor/modules/llm/qwen3.h>

#include "layer_testing.h"

namespace nestor::modules::testing {
namespace {

Qwen3Options tiny() {
  Qwen3Options options;
  options.vocabulary = 11;
  options.layers = 2;
  options.width = 8;
  options.heads = 4;
  options.kv_heads = 2;
  options.head_dim = 4;
  options.ffn = 12;
  return options;
}

TEST(Qwen3Layer, HasTheShapeOfItsInputAndRightGradients) {
  auto layer = shaken(Qwen3Layer(tiny(), Seed(1)));
  auto x = random_tensor({2, 5, 8}, 1).requires_grad_(true);
  auto microbatch = microbatch_of({{{"tokens", 5}}, {{"tokens", 3}}});
  Context context{microbatch, Seed(2), "llm.layers.1"};
  EXPECT_EQ(layer->forward({x}, context)[0].sizes(), x.sizes());
  expect_gradients(*layer, {x}, context);
}

TEST(Qwen3Layer, GroupedLayerEqualsOneWithRepeatedHeads) {
  auto options = tiny();
  auto grouped = shaken(Qwen3Layer(options, Seed(1)));
  options.kv_heads = 4;
  auto full = shaken(Qwen3Layer(options, Seed(1)));
  {
    torch::NoGradGuard no_grad;
    auto from = grouped->named_parameters();
    for (auto& [name, parameter] : full->named_parameters().pairs()) {
      if (name != "attention.qkv.weight") {
        parameter.copy_(from[name]);
        continue;
      }
      auto heads = from[name].view({8, 4, 8});
      parameter.copy_(torch::cat({heads.narrow(0, 0, 4), heads.narrow(0, 4, 2).repeat_interleave(2, 0),
                                  heads.narrow(0, 6, 2).repeat_interleave(2, 0)})
                          .view({48, 8}));
    }
  }
  auto x = random_tensor({2, 5, 8}, 1);
  auto microbatch = microbatch_of({{{"tokens", 5}}, {{"tokens", 5}}});
  Context context{microbatch, Seed(2), "llm.layers.1"};
  EXPECT_LT(max_difference(grouped->forward({x}, context)[0], full->forward({x}, context)[0]), 1e-12);
}

TEST(Qwen3Attention, QkNormMakesTheScaleOfQueriesAndKeysIrrelevant) {
  auto options = tiny();
  auto attention = std::make_shared<Qwen3Attention>(options, Seed(1), 0.3);
  attention->to(torch::kFloat64);
  auto x = random_tensor({1, 6, 8}, 1);
  torch::NoGradGuard no_grad;
  auto before = attention->forward(x);
  auto weight = attention->named_parameters()["qkv.weight"];
  weight.narrow(0, 0, 24).mul_(50);  // queries and keys; values come last
  EXPECT_LT(max_difference(attention->forward(x), before), 1e-4);
  weight.narrow(0, 24, 8).mul_(2);
  EXPECT_LT(max_difference(attention->forward(x), 2 * before), 1e-4);
  attention->named_parameters()["q_norm"].mul_(5);  // the learnt scale does matter
  EXPECT_GT(max_difference(attention->forward(x), 2 * before), 1e-3);
}

class Qwen3Padding : public ::testing::TestWithParam<int> {};

// The same sample alone and beside a longer one, dense and with experts: outputs, losses and gradients.
TEST_P(Qwen3Padding, DoesNotChangeASample) {
  auto options = tiny();
  options.experts = GetParam();
  auto layer = shaken(Qwen3Layer(options, Seed(1)));
  auto both = random_tensor({2, 7, 8}, 1);
  auto alone = both.narrow(0, 1, 1).narrow(1, 0, 4).clone();
  auto run = [&](const Tensor& x, const Microbatch& microbatch, std::int64_t row) {
    auto leaf = x.clone().requires_grad_(true);
    std::vector<LossTerm> losses;
    Context context{microbatch, Seed(2), "llm.layers.1"};
    context.losses = &losses;
    auto out = layer->forward({leaf}, context)[0][row].narrow(0, 0, 4);
    out.square().sum().backward();
    return std::pair{out.detach(), leaf.grad()[row].narrow(0, 0, 4)};
  };
  auto [padded_out, padded_grad] = run(both, microbatch_of({{{"tokens", 7}}, {{"tokens", 4}}}), 1);
  auto [out, grad] = run(alone, microbatch_of({{{"tokens", 4}}}), 0);
  EXPECT_LT(max_difference(padded_out, out), 1e-12);
  EXPECT_LT(max_difference(padded_grad, grad), 1e-12);
  // What stands in the padding is of no consequence either.
  auto other = both.clone();
  other[1].narrow(0, 4, 3).fill_(1e3);
  auto [other_out, other_grad] = run(other, microbatch_of({{{"tokens", 7}}, {{"tokens", 4}}}), 1);
  EXPECT_LT(max_difference(other_out, out), 1e-12);
  EXPECT_LT(max_difference(other_grad, grad), 1e-12);
}
INSTANTIATE_TEST_SUITE_P(DenseAndExperts, Qwen3Padding, ::testing::Values(0, 4));

TEST(Qwen3Layer, RunsInEveryTypeAndAnyCutBuildsTheSameLayer) {
  auto factories = decoder_layers(tiny());
  ASSERT_EQ(factories.size(), 3u);
  auto microbatch = microbatch_of({{{"tokens", 3}}});
  Context context{microbatch, Seed(2), "llm.layers.1"};
  auto x = random_tensor({1, 3, 8}, 1);
  auto reference = factories[1](Seed(5))->forward({x.to(torch::kFloat32)}, context)[0];
  auto again = factories[1](Seed(5));
  EXPECT_TRUE(again->forward({x.to(torch::kFloat32)}, context)[0].equal(reference));
  for (auto type : {torch::kFloat64, torch::kBFloat16}) {
    auto layer = factories[1](Seed(5));
    layer->to(type);
    auto out = layer->forward({x.to(type)}, context)[0];
    EXPECT_EQ(out.scalar_type(), type);
    EXPECT_LT(max_difference(out.to(torch::kFloat32), reference), type == torch::kFloat64 ? 1e-5 : 0.1);
  }
}

TEST(LanguageHead, NormsAndMapsToTheVocabulary) {
  auto head = shaken(LanguageHead(tiny(), Seed(1)));
  auto x = random_tensor({2, 3, 8}, 1).requires_grad_(true);
  auto microbatch = microbatch_of({{{"tokens", 3}}, {{"tokens", 3}}});
  Context context{microbatch, Seed(2), "text"};
  EXPECT_EQ(head->forward({x}, context)[0].sizes(), (std::vector<std::int64_t>{2, 3, 11}));
  expect_gradients(*head, {x}, context);
  EXPECT_EQ(head->forward_flops(microbatch), 2.0 * 6 * 8 * 11);
}

TEST(Qwen3Layer, FlopsAreThoseOfTheMultiplications) {
  auto options = tiny();
  Qwen3Layer layer(options, Seed(1));
  auto microbatch = microbatch_of({{{"tokens", 5}}, {{"tokens", 3}}});
  const double tokens = 10;  // padded
  const double expected = tokens * 2 * (8 * 32 + 16 * 8) + 2 * 2 * (2 * 5 * 5) * 16 + tokens * 2 * (8 * 24 + 12 * 8);
  EXPECT_EQ(layer.forward_flops(microbatch), expected);
}

}  // namespace
}  // namespace nestor::modules::testing
