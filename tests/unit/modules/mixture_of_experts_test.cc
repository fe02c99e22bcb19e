#include <nestor/modules/llm/mixture_of_experts.h>

#include "layer_testing.h"

namespace nestor::modules::testing {
namespace {

/// As a nestor module, for expect_gradients.
class Wrapped : public Module {
 public:
  Wrapped(std::int64_t experts, std::int64_t top_k)
      : moe(register_module("moe", std::make_shared<MixtureOfExperts>(6, 8, experts, top_k, Seed(3), 0.4))) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {moe->forward(inputs.at(0), context)};
  }
  std::shared_ptr<MixtureOfExperts> moe;
};

double loss_of(Wrapped& wrapped, const Tensor& x, const Microbatch& microbatch) {
  std::vector<LossTerm> losses;
  Context context{microbatch, Seed(2), "llm.layers.1"};
  context.losses = &losses;
  wrapped.forward({x}, context);
  EXPECT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses.at(0).name, "balance");
  return losses.at(0).sum.item<double>();
}

TEST(MixtureOfExperts, EqualsADenseLayerWhereAllExpertsAreEqual) {
  auto wrapped = shaken(Wrapped(5, 3));
  auto parameters = wrapped->named_parameters();
  torch::NoGradGuard no_grad;
  for (auto name : {"moe.gate_up", "moe.down"}) {
    parameters[name].copy_(parameters[name][0].clone().expand_as(parameters[name]));
  }
  auto x = random_tensor({2, 4, 6}, 1);
  auto microbatch = microbatch_of({{{"tokens", 4}}, {{"tokens", 4}}});
  auto hidden = x.matmul(parameters["moe.gate_up"][0]).chunk(2, -1);
  auto dense = (torch::silu(hidden[0]) * hidden[1]).matmul(parameters["moe.down"][0]);
  EXPECT_LT(max_difference(wrapped->forward({x}, Context{microbatch, Seed(2), "m"})[0], dense), 1e-12);
}

TEST(MixtureOfExperts, MixesTheChosenExpertsByTheirNormalisedWeights) {
  auto wrapped = shaken(Wrapped(4, 2), 0.6);
  auto parameters = wrapped->named_parameters();
  torch::NoGradGuard no_grad;
  auto x = random_tensor({1, 5, 6}, 1);
  auto microbatch = microbatch_of({{{"tokens", 5}}});
  auto out = wrapped->forward({x}, Context{microbatch, Seed(2), "m"})[0];
  for (int t = 0; t < 5; ++t) {
    auto p = torch::softmax(parameters["moe.router.weight"].mv(x[0][t]), 0);
    auto order = p.argsort(0, true);
    auto e0 = order[0].item<std::int64_t>(), e1 = order[1].item<std::int64_t>();
    auto expert = [&](std::int64_t e) {
      auto hidden = x[0][t].unsqueeze(0).mm(parameters["moe.gate_up"][e]).chunk(2, -1);
      return (torch::silu(hidden[0]) * hidden[1]).mm(parameters["moe.down"][e])[0];
    };
    auto expected = (p[e0] * expert(e0) + p[e1] * expert(e1)) / (p[e0] + p[e1]);
    EXPECT_LT(max_difference(out[0][t], expected), 1e-12) << t;
  }
}

TEST(MixtureOfExperts, HasRightGradientsWithPaddingAndLeavesPaddingOut) {
  auto wrapped = shaken(Wrapped(4, 2));
  auto x = random_tensor({3, 5, 6}, 1).requires_grad_(true);
  auto microbatch = microbatch_of({{{"tokens", 5}}, {{"tokens", 2}}, {}});
  Context context{microbatch, Seed(2), "llm.layers.1"};
  auto out = wrapped->forward({x}, context)[0];
  EXPECT_EQ(out[1].narrow(0, 2, 3).abs().max().item<double>(), 0);
  EXPECT_EQ(out[2].abs().max().item<double>(), 0);
  EXPECT_GT(out[1].narrow(0, 0, 2).abs().min().item<double>(), 0);
  expect_gradients(*wrapped, {x}, context);
}

TEST(BalanceLoss, IsTheFormulaByHand) {
  // Two sequences of 2 and 1 tokens, 3 experts, top 1.
  auto probabilities = torch::tensor({0.5, 0.3, 0.2, 0.1, 0.8, 0.1, 0.6, 0.2, 0.2}, torch::kFloat64).view({3, 3});
  auto chosen = torch::tensor({0, 1, 0}, torch::kInt64).view({3, 1});
  auto sequence = torch::tensor({0, 0, 1}, torch::kInt64);
  auto lengths = torch::tensor({2.0, 1.0}, torch::kFloat64);
  // First: f = (1/2, 1/2, 0), p = (0.3, 0.55, 0.15). Second: f = (1, 0, 0), p = (0.6, 0.2, 0.2).
  const double expected = 3 * (0.5 * 0.3 + 0.5 * 0.55) + 3 * 0.6;
  EXPECT_NEAR(balance_loss(probabilities, chosen, sequence, lengths).item<double>(), expected, 1e-12);
}

TEST(BalanceLoss, IsOnePerBalancedSequence) {
  auto probabilities = torch::full({8, 4}, 0.25, torch::kFloat64);
  auto chosen = torch::tensor({0, 1, 2, 3, 0, 1, 2, 3, 0, 2, 1, 3, 0, 2, 1, 3}, torch::kInt64).view({8, 2});
  auto sequence = torch::tensor({0, 0, 0, 0, 1, 1, 1, 1}, torch::kInt64);
  auto lengths = torch::tensor({4.0, 4.0}, torch::kFloat64);
  EXPECT_NEAR(balance_loss(probabilities, chosen, sequence, lengths).item<double>(), 2.0, 1e-12);
}

TEST(BalanceLoss, DoesNotDependOnWhatElseIsInTheMicrobatch) {
  auto wrapped = shaken(Wrapped(4, 2));
  auto x = random_tensor({2, 5, 6}, 1);
  const double together = loss_of(*wrapped, x, microbatch_of({{{"tokens", 5}}, {{"tokens", 3}}}));
  const double apart = loss_of(*wrapped, x.narrow(0, 0, 1), microbatch_of({{{"tokens", 5}}})) +
                       loss_of(*wrapped, x.narrow(0, 1, 1).narrow(1, 0, 3), microbatch_of({{{"tokens", 3}}}));
  EXPECT_NEAR(together, apart, 1e-12);
}

}  // namespace
}  // namespace nestor::modules::testing
