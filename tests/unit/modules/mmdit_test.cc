#include <nestor/modules/generator/mmdit.h>

#include "layer_testing.h"

namespace nestor::modules::testing {
namespace {

MmditOptions tiny() {
  MmditOptions options;
  options.image_size = 4;
  options.patch = 2;
  options.width = 8;
  options.layers = 2;
  options.heads = 2;
  options.ffn = 10;
  options.sample_steps = 3;
  options.contexts = {{ContextSource::Kind::sequence, "tokens", 6, 0}};
  return options;
}

double loss_of(Module& module, const Tensors& inputs, const Microbatch& microbatch) {
  return module.forward(inputs, Context{microbatch, Seed(2), "image"})[0].item<double>();
}

TEST(DiffusionTransformer, HasRightGradientsForBothPredictions) {
  for (auto prediction : {Prediction::velocity, Prediction::sample}) {
    auto options = tiny();
    options.flow.prediction = prediction;
    auto generator = shaken(DiffusionTransformer(options, Seed(1)));
    auto hidden = random_tensor({3, 4, 6}, 1).requires_grad_(true);
    auto target = random_tensor({2, 3, 4, 4}, 2);
    auto microbatch = microbatch_of({{{"tokens", 4}, {"target", 1}}, {{"tokens", 4}}, {{"tokens", 2}, {"target", 1}}});
    expect_gradients(*generator, {hidden, target}, Context{microbatch, Seed(2), "image"});
  }
}

TEST(DiffusionTransformer, ReadsOnlyTheContextOfItsOwnSample) {
  auto generator = shaken(DiffusionTransformer(tiny(), Seed(1)));
  auto hidden = random_tensor({3, 4, 6}, 1).requires_grad_(true);
  auto microbatch = microbatch_of({{{"tokens", 4}, {"target", 1}}, {{"tokens", 4}}, {{"tokens", 2}, {"target", 1}}});
  generator->forward({hidden, random_tensor({2, 3, 4, 4}, 2)}, Context{microbatch, Seed(2), "image"})[0].backward();
  auto reached = hidden.grad().abs().sum(-1);
  EXPECT_EQ(reached[1].max().item<double>(), 0);                  // has no target
  EXPECT_EQ(reached[2].narrow(0, 2, 2).max().item<double>(), 0);  // padding
  EXPECT_GT(reached[0].min().item<double>(), 0);
  EXPECT_GT(reached[2].narrow(0, 0, 2).min().item<double>(), 0);
}

TEST(DiffusionTransformer, LossIsASumOverTargetsThatDoesNotDependOnTheirCompany) {
  auto options = tiny();
  options.contexts.push_back({ContextSource::Kind::images, "pixels", 5, 3});
  options.flow.drop_context = 0.5;
  auto generator = shaken(DiffusionTransformer(options, Seed(1)));
  auto hidden = random_tensor({4, 6, 6}, 1), seen = random_tensor({3, 3, 5}, 2),
       target = random_tensor({4, 3, 4, 4}, 3);
  std::vector<std::map<std::string, std::int64_t, std::less<>>> counts = {
      {{"tokens", 6}, {"target", 1}},
      {{"tokens", 3}, {"pixels", 2}, {"target", 2}},
      {{"tokens", 2}},
      {{"tokens", 5}, {"pixels", 1}, {"target", 1}}};
  auto microbatch = microbatch_of(counts);
  double apart = 0;
  const std::int64_t lengths[] = {6, 3, 2, 5}, first_target[] = {0, 1, 3, 3}, first_seen[] = {0, 0, 2, 2};
  for (std::int64_t i : {0, 1, 3}) {
    auto alone = microbatch_of({counts[static_cast<std::size_t>(i)]});
    alone.samples[0].id = microbatch.samples[static_cast<std::size_t>(i)].id;
    const auto images = alone.samples[0].count("pixels"), targets = alone.samples[0].count("target");
    apart += loss_of(
        *generator,
        {hidden.narrow(0, i, 1).narrow(1, 0, lengths[i]), images > 0 ? seen.narrow(0, first_seen[i], images) : Tensor(),
         target.narrow(0, first_target[i], targets)},
        alone);
  }
  EXPECT_NEAR(loss_of(*generator, {hidden, seen, target}, microbatch), apart, 1e-12 * apart);
}

TEST(DiffusionTransformer, StartsAtTheErrorOfPredictingNothing) {
  DiffusionTransformer generator(tiny(), Seed(1));
  auto target = random_tensor({1, 3, 4, 4}, 2).to(torch::kFloat32);
  auto microbatch = microbatch_of({{{"tokens", 4}, {"target", 1}}});
  Context context{microbatch, Seed(2), "image"};
  auto draws = draw_flow({0}, {3, 4, 4}, {}, context, torch::kFloat32);
  EXPECT_NEAR(generator.forward({torch::ones({1, 4, 6}), target}, context)[0].item<double>(),
              (draws.noise - target).square().mean().item<double>(), 1e-5);
}

TEST(DiffusionTransformer, SamplesOneImagePerTargetFromTheSamplesOwnNoise) {
  auto options = tiny();
  options.guidance = 2;
  auto generator = shaken(DiffusionTransformer(options, Seed(1)));
  auto hidden = random_tensor({2, 4, 6}, 1);
  auto microbatch = microbatch_of({{{"tokens", 4}}, {{"tokens", 4}, {"target", 2}}});
  Context context{microbatch, Seed(2), "image", false, true};
  torch::NoGradGuard no_grad;
  auto images = generator->forward({hidden, Tensor()}, context)[0];
  ASSERT_EQ(images.sizes(), (std::vector<std::int64_t>{2, 3, 4, 4}));
  EXPECT_LE(images.abs().max().item<double>(), 1);
  EXPECT_GT(max_difference(images[0], images[1]), 1e-3);
  auto alone = microbatch;
  alone.samples.erase(alone.samples.begin());
  Context alone_context{alone, Seed(2), "image", false, true};
  EXPECT_LT(max_difference(generator->forward({hidden.narrow(0, 1, 1), Tensor()}, alone_context)[0], images), 1e-12);
}

TEST(DiffusionTransformer, RunsInEveryTypeAndOnTargetsOfOtherSizes) {
  auto microbatch = microbatch_of({{{"tokens", 3}, {"target", 1}}});
  for (auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    DiffusionTransformer generator(tiny(), Seed(1));
    generator.to(type);
    auto hidden = random_tensor({1, 4, 6}, 1).to(type);
    for (auto side : {4, 8, 5}) {
      auto loss =
          generator.forward({hidden, torch::ones({1, 3, side, side}, type)}, Context{microbatch, Seed(2), "image"})[0];
      EXPECT_EQ(loss.scalar_type(), type);
      EXPECT_TRUE(std::isfinite(loss.item<double>()));
    }
  }
}

TEST(Flow, DrawsDependOnTheSampleAlone) {
  auto microbatch = microbatch_of({{{"target", 1}}, {{"target", 2}}, {{"target", 1}}});
  Context context{microbatch, Seed(2), "image"};
  auto draws = draw_flow({0, 1, 1, 2}, {3, 2, 2}, {}, context, torch::kFloat32);
  auto fewer = draw_flow({1, 1}, {3, 2, 2}, {}, context, torch::kFloat32);
  EXPECT_TRUE(draws.noise.narrow(0, 1, 2).equal(fewer.noise));
  EXPECT_TRUE(draws.time.narrow(0, 1, 2).equal(fewer.time));
  EXPECT_FALSE(draws.noise[1].equal(draws.noise[2]));
  Context other{microbatch, Seed(3), "image"};
  EXPECT_FALSE(draw_flow({0}, {3, 2, 2}, {}, other, torch::kFloat32).noise[0].equal(draws.noise[0]));
}

TEST(Flow, TimesAndDropsFollowTheirDistributions) {
  std::vector<std::map<std::string, std::int64_t, std::less<>>> counts(4000);
  auto microbatch = microbatch_of(counts);
  std::vector<std::size_t> owners(4000);
  std::iota(owners.begin(), owners.end(), 0);
  Context context{microbatch, Seed(2), "image"};
  FlowOptions options;
  options.time_mean = -0.5;
  options.time_std = 0.8;
  options.drop_context = 0.25;
  auto draws = draw_flow(owners, {1, 1, 1}, options, context, torch::kFloat32);
  auto logits = torch::logit(draws.time);
  EXPECT_NEAR(logits.mean().item<double>(), -0.5, 0.05);
  EXPECT_NEAR(logits.std().item<double>(), 0.8, 0.05);
  EXPECT_NEAR(std::count(draws.dropped.begin(), draws.dropped.end(), true) / 4000.0, 0.25, 0.03);
  EXPECT_NEAR(draws.noise.mean().item<double>(), 0, 0.06);
  EXPECT_NEAR(draws.noise.std().item<double>(), 1, 0.05);
  options.time_std = 0;
  auto uniform = draw_flow(owners, {1, 1, 1}, options, context, torch::kFloat32).time;
  EXPECT_NEAR(uniform.mean().item<double>(), 0.5, 0.02);
  EXPECT_NEAR(uniform.var().item<double>(), 1.0 / 12, 0.01);
  context.training = false;
  auto evaluated = draw_flow(owners, {1, 1, 1}, options, context, torch::kFloat32);
  EXPECT_EQ(std::count(evaluated.dropped.begin(), evaluated.dropped.end(), true), 0);
}

TEST(Flow, LossesOfBothPredictionsAgreeOnTheSameVelocity) {
  auto data = random_tensor({2, 3, 2, 2}, 1), velocity = random_tensor({2, 3, 2, 2}, 2);
  FlowDraws draws{random_tensor({2, 3, 2, 2}, 3), torch::tensor({0.3, 0.8}, torch::kFloat64), {false, false}};
  auto x = flow_point(data, draws);
  FlowOptions by_velocity, by_sample;
  by_sample.prediction = Prediction::sample;
  auto sample = x - draws.time.view({2, 1, 1, 1}) * velocity;
  const double expected = (velocity - (draws.noise - data)).square().mean({1, 2, 3}).sum().item<double>();
  EXPECT_NEAR(flow_loss(velocity, data, draws, by_velocity).item<double>(), expected, 1e-12);
  EXPECT_NEAR(flow_loss(sample, data, draws, by_sample).item<double>(), expected, 1e-9);
}

TEST(EulerSample, IntegratesAKnownFieldExactly) {
  auto noise = random_tensor({2, 3}, 1), data = random_tensor({2, 3}, 2);
  auto straight = [&](const Tensor&, double) { return noise - data; };
  for (std::int64_t steps : {1, 7}) EXPECT_LT(max_difference(euler_sample(noise, steps, straight), data), 1e-12);
  // A field that knows only where it stands and when: from x on the straight path back to the data.
  auto towards = [&](const Tensor& x, double time) { return (x - data) / time; };
  EXPECT_LT(max_difference(euler_sample(noise, 9, towards), data), 1e-12);
  // dx/dt = 2 t: Euler from the right of each of n intervals gives x - 1 - 1/n.
  auto growing = [](const Tensor& x, double time) { return torch::full_like(x, 2 * time); };
  EXPECT_LT(max_difference(euler_sample(noise, 10, growing), noise - 1.1), 1e-12);
}

}  // namespace
}  // namespace nestor::modules::testing
