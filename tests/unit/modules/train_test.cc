#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "live_bytes.h"
#include "toy_model.h"

namespace nestor::test {
namespace {

using modules::Optimizer;
using modules::OptimizerOptions;
using modules::Seed;
using testing::HasSubstr;

Optimizer::Parameters make_parameters(torch::Dtype dtype) {
  auto leaf = [&](const char* name, at::IntArrayRef shape) {
    auto options = torch::TensorOptions();
    return std::pair<std::string, Tensor>(
        name, torch::randn(shape, Seed(4).child(name).generator(), options).to(dtype).requires_grad_());
  };
  return {leaf("a.weight", {7, 5}), leaf("a.bias", {5}), leaf("b.weight", {70000}), leaf("frozen", {3})};
}

/// Compares with torch::optim::AdamW over some steps, with learning rates that change and one parameter that has no
/// gradient at first.
void compare_with_torch(torch::Dtype dtype, double tolerance) {
  OptimizerOptions options;
  options.lr = 0.01;
  options.weight_decay = 0.1;
  options.warmup = 3;
  options.decay_steps = 8;
  auto parameters = make_parameters(dtype);
  parameters[3].second.requires_grad_(false);
  std::vector<Tensor> copies;
  for (auto& [name, tensor] : parameters) copies.push_back(tensor.detach().clone().requires_grad_());
  using torch::optim::AdamW;
  using torch::optim::AdamWOptions;
  AdamW decayed({copies[0]}, AdamWOptions(0.01).weight_decay(0.1));
  AdamW plain({copies[1], copies[2]}, AdamWOptions(0.01).weight_decay(0));
  Optimizer optimizer(options, parameters);
  for (std::int64_t step = 1; step <= 10; ++step) {
    for (std::size_t i = 0; i < 3; ++i) {
      Tensor gradient =
          torch::randn(copies[i].sizes(), Seed(5).child(step).child(static_cast<std::int64_t>(i)).generator(),
                       torch::TensorOptions())
              .to(dtype);
      const bool absent = i == 1 && step <= 2;
      if (!absent) parameters[i].second.mutable_grad() = gradient;
      copies[i].mutable_grad() = absent ? torch::zeros_like(gradient) : gradient * 0.5;
    }
    const double rate = modules::learning_rate(options, step);
    for (AdamW* torch_optimizer : {&decayed, &plain}) {
      static_cast<AdamWOptions&>(torch_optimizer->param_groups()[0].options()).lr(rate);
      torch_optimizer->step();
    }
    optimizer.update(step, 0.5);
    optimizer.zero_gradients();
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_FALSE(parameters[i].second.grad().defined());
      EXPECT_LE((copies[i] - parameters[i].second).abs().max().item<double>(), tolerance) << i << " step " << step;
    }
  }
  EXPECT_TRUE(torch::equal(copies[3], parameters[3].second));
  EXPECT_EQ(optimizer.state().size(), 6U);
}

TEST(Optimizer, EqualsLibTorchsInDoublePrecision) {
  compare_with_torch(torch::kFloat64, 1e-13);
}
TEST(Optimizer, EqualsLibTorchsInSinglePrecision) {
  compare_with_torch(torch::kFloat32, 1e-6);
}

TEST(Optimizer, LowPrecisionKeepsSmallUpdates) {
  OptimizerOptions options;
  options.lr = 1e-5;
  options.weight_decay = 0;
  Tensor weight = torch::ones({4}, torch::kBFloat16).requires_grad_();
  Optimizer optimizer(options, {{"w", weight}});
  for (int step = 1; step <= 1000; ++step) {
    weight.mutable_grad() = torch::ones({4}, torch::kBFloat16);
    optimizer.update(step, 1);
  }
  // Each update is far below bfloat16's resolution at 1; together they are 0.01.
  EXPECT_NEAR(optimizer.state().back().second[0].item<float>(), 0.99, 1e-4);
  EXPECT_EQ(optimizer.state().back().first, "w.master");
  EXPECT_NEAR(weight[0].item<float>(), 0.99, 0.004);
}

TEST(Optimizer, SumsSquaresOfTheGradientsThatCount) {
  auto parameters = make_parameters(torch::kFloat32);
  parameters[0].second.mutable_grad() = torch::full({7, 5}, 2.0);
  parameters[1].second.mutable_grad() = torch::full({5}, 3.0).to(torch::kFloat32);
  Tensor big = torch::full({140000}, 1e-3).slice(0, 0, 140000, 2);  // not contiguous
  parameters[2].second.mutable_grad() = big;
  Optimizer optimizer({}, parameters);
  EXPECT_NEAR(optimizer.gradient_square_sum(), 35 * 4 + 5 * 9 + 70000 * 1e-6, 1e-6);
  EXPECT_NEAR(optimizer.gradient_square_sum({true, false, false, true}), 140, 1e-9);
  EXPECT_THROW(optimizer.gradient_square_sum({true}), modules::Error);
}

TEST(Optimizer, WarmsUpAndFollowsACosine) {
  OptimizerOptions options;
  options.lr = 2;
  options.warmup = 4;
  options.decay_steps = 14;
  options.final_lr = 0.25;
  EXPECT_DOUBLE_EQ(modules::learning_rate(options, 1), 0.5);
  EXPECT_DOUBLE_EQ(modules::learning_rate(options, 4), 2);
  EXPECT_DOUBLE_EQ(modules::learning_rate(options, 9), 2 * (0.25 + 0.75 / 2));
  EXPECT_DOUBLE_EQ(modules::learning_rate(options, 14), 0.5);
  EXPECT_DOUBLE_EQ(modules::learning_rate(options, 1000), 0.5);
  options.decay_steps = 0;
  EXPECT_DOUBLE_EQ(modules::learning_rate(options, 1000), 2);
}

TEST(Optimizer, RefusesOptionsThatMakeNoSense) {
  auto message = [](auto change) -> std::string {
    OptimizerOptions options;
    change(options);
    try {
      modules::validate(options);
    } catch (const modules::Error& error) {
      return error.what();
    }
    return "fine";
  };
  EXPECT_EQ(message([](auto&) {}), "fine");
  EXPECT_THAT(message([](auto& o) { o.kind = "sgd"; }), HasSubstr("optimizer.kind"));
  EXPECT_THAT(message([](auto& o) { o.lr = std::nan(""); }), HasSubstr("optimizer.lr"));
  EXPECT_THAT(message([](auto& o) { o.beta2 = 1; }), HasSubstr("optimizer.beta2"));
  EXPECT_THAT(message([](auto& o) { o.clip = -1; }), HasSubstr("optimizer.clip"));
  EXPECT_THAT(message([](auto& o) { o.warmup = -1; }), HasSubstr("optimizer.warmup"));
}

TEST(Loss, CrossEntropySumsOverLabelledPositions) {
  Tensor logits = torch::randn({2, 3, 5}, Seed(1).generator(), torch::TensorOptions().dtype(torch::kFloat64));
  Tensor labels = torch::tensor({{1, -100, 4}, {-100, -100, 0}});
  double expected = 0;
  for (auto [b, t] : {std::pair{0, 0}, {0, 2}, {1, 2}})
    expected -= torch::log_softmax(logits[b][t], 0)[labels[b][t].item<std::int64_t>()].item<double>();
  EXPECT_NEAR(modules::cross_entropy_sum(logits, labels).item<double>(), expected, 1e-12);
  Tensor none = modules::cross_entropy_sum(logits.requires_grad_(), torch::full({2, 3}, -100, torch::kInt64));
  EXPECT_EQ(none.item<double>(), 0);
  none.backward();  // a graph all the same
  EXPECT_EQ(modules::cross_entropy_sum(logits.detach().to(torch::kBFloat16), labels).scalar_type(), torch::kFloat32);
  EXPECT_THROW(modules::cross_entropy_sum(logits, labels.narrow(1, 0, 2)), modules::Error);
}

TEST(Loss, CountsAreGlobalAndZeroCountsGiveZero) {
  const auto model = toy_model();
  const auto batch = toy_batch({"vat,-", ",t"});
  const auto counts = modules::step_counts(model, batch);
  EXPECT_EQ(counts.counts.at("text"), 2 + 0 + 4 + 5);
  EXPECT_EQ(counts.counts.at("image"), 2);
  EXPECT_EQ(counts.samples, 4);
  EXPECT_EQ(counts.tokens, 3 + 4 + 5 + 6);
  EXPECT_DOUBLE_EQ(counts.scales.at("image"), 0.5 / 2);
  EXPECT_DOUBLE_EQ(counts.scales.at("balance"), 0.1 / 4);
  const auto text_only = modules::step_counts(model, toy_batch({",", ""}));
  EXPECT_EQ(text_only.scales.at("image"), 0);
  const auto means = modules::loss_means(model, counts, {{"text", 22.0}, {"image", 3.0}});
  EXPECT_DOUBLE_EQ(means.losses.at("text"), 2);
  EXPECT_DOUBLE_EQ(means.losses.at("balance"), 0);
  EXPECT_DOUBLE_EQ(means.total, 2 + 0.5 * 1.5);
}

TEST(ReferenceStep, LearnsSkipsAndKeepsMemoryFlat) {
  const auto model = toy_model();
  ToyDataset dataset;
  modules::PartOptions options;
  options.seed = Seed(7);
  LiveBytes live;
  modules::WholeModel whole(model, options);
  OptimizerOptions training;
  training.lr = 0.01;
  Optimizer optimizer(training, whole.parameters());
  std::vector<double> losses;
  std::int64_t bytes = 0;
  for (std::int64_t step = 1; step <= 60; ++step) {
    auto batch = toy_batch({"vat,v", ",t"}, step);
    const auto result = modules::reference_step(whole, optimizer, batch, dataset);
    EXPECT_FALSE(result.skipped);
    EXPECT_GT(result.grad_norm, 0);
    losses.push_back(result.losses.total);
    if (step == 10) bytes = live.now();
    if (step > 10) {
      ASSERT_EQ(live.now(), bytes) << "step " << step;
    }
  }
  EXPECT_LT(losses.back(), 0.7 * losses.front());

  // A NaN anywhere: nothing changes, and it is said.
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : whole.parameters()) before[name] = tensor.detach().clone();
  for (const auto& [name, tensor] : optimizer.state()) before[name] = tensor.clone();
  Tensor poisoned = whole.parameters().back().second;
  {
    torch::NoGradGuard no_grad;
    poisoned.view(-1)[0] = std::nan("");
    before[whole.parameters().back().first].view(-1)[0] = std::nan("");
  }
  const auto result = modules::reference_step(whole, optimizer, toy_batch({"vat"}, 61), dataset);
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isnan(result.grad_norm));
  for (const auto& [name, tensor] : whole.parameters())
    EXPECT_TRUE(torch::allclose(tensor, before[name], 0, 0, /*equal_nan=*/true)) << name;
  for (const auto& [name, tensor] : optimizer.state()) EXPECT_TRUE(torch::equal(tensor, before[name])) << name;
}

TEST(ReferenceStep, GradientsAreThoseOfFiniteDifferences) {
  const auto model = toy_model();
  ToyDataset dataset;
  modules::PartOptions options;
  options.dtype = torch::kFloat64;
  options.seed = Seed(7);
  modules::WholeModel whole(model, options);
  const auto batch = toy_batch({"vat,v", ",t"});
  const auto counts = modules::step_counts(model, batch);
  auto total = [&] {
    modules::LossSums sums;
    for (const auto& m : batch.microbatches) modules::add_to(sums, whole.train(m, dataset, counts.scales));
    return modules::loss_means(model, counts, sums).total;
  };
  total();
  std::map<std::string, double> analytic;
  for (const auto& [name, tensor] : whole.parameters())
    if (tensor.grad().defined()) analytic[name] = tensor.grad().reshape(-1)[1].item<double>();
  ASSERT_TRUE(analytic.count("llm.layers.0.embedding.weight"));
  for (const auto& [name, tensor] : whole.parameters()) {
    if (!analytic.count(name)) continue;
    auto nudge = [&, &t = tensor](double by) {
      torch::NoGradGuard no_grad;
      t.view(-1)[1] += by;
    };
    constexpr double kStep = 1e-5;
    nudge(kStep);
    const double up = total();
    nudge(-2 * kStep);
    const double down = total();
    nudge(kStep);
    EXPECT_NEAR((up - down) / (2 * kStep), analytic[name], 1e-7) << name;
  }
}

TEST(UpdateDecision, ClipsOrSkips) {
  EXPECT_DOUBLE_EQ(modules::decide_update(25, 0).scale, 1);
  EXPECT_NEAR(modules::decide_update(25, 1).scale, 0.2, 1e-6);
  EXPECT_DOUBLE_EQ(modules::decide_update(0.25, 1).scale, 1);
  EXPECT_TRUE(modules::decide_update(std::nan(""), 1).skip);
  EXPECT_TRUE(modules::decide_update(INFINITY, 1).skip);
}

}  // namespace
}  // namespace nestor::test
