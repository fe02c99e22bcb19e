// The executors against the plain loop, in float64: losses and every gradient, over several steps with updates between
// them. Each case is one feature; schedules are crossed with the features that they can break.

#include <ostream>
#include <sstream>

#include <gtest/gtest.h>

#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>

#include "tiny_model.h"

namespace nestor::test {
namespace {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

using Pools = std::map<std::string, std::vector<std::int32_t>>;

struct Case {
  std::string name;
  TinyOptions model;
  std::int32_t stages = 2, chunks = 1, microbatches = 3;
  std::string policy = "nested";
  Pools pools;
  int steps = 3;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

actors::JobSpec spec_of(const Case& c) {
  actors::JobSpec spec = tiny_job(c.model);
  spec.schedule.stages = c.stages;
  spec.schedule.chunks = c.chunks;
  spec.schedule.microbatches = c.microbatches;
  spec.schedule.policy = c.policy;
  spec.schedule.pools = c.pools;
  return spec;
}

TinyOptions encoder_only() {
  TinyOptions model;
  model.generators.clear();
  return model;
}
TinyOptions with(std::vector<std::string> encoders, std::vector<std::string> generators, bool sees = false) {
  TinyOptions model;
  model.encoders = std::move(encoders);
  model.generators = std::move(generators);
  model.generator_sees = sees;
  return model;
}
TinyOptions frozen(std::vector<std::string> patterns) {
  TinyOptions model;
  model.frozen = std::move(patterns);
  return model;
}
TinyOptions deep(TinyOptions model) {
  model.layers = 7;  // eight with the embedding: a stage each for P = 4, V = 2
  return model;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::int32_t p : {1, 2, 3, 4})
    for (std::int32_t v : {1, 2})
      for (std::int32_t m : {1, 3, 8, 5}) {
        const std::string shape = text("P", p, "V", v, "M", m);
        all.push_back({text("Encoder", shape), deep(encoder_only()), p, v, m, "nested", {}, 1});
        all.push_back({text("Generator", shape), deep({}), p, v, m, "nested", {}, 2});
      }
  for (const std::string policy : {"coupled", "decoupled", "nested", "filled"}) {
    all.push_back({text("Policy_", policy), {}, 2, 1, 5, policy, {}});
    all.push_back({text("PolicyChunks_", policy), deep({}), 2, 2, 4, policy, {}});
    all.push_back(
        {text("PolicyTwoOfEach_", policy), with({"pixels", "sketch"}, {"target", "depth"}, true), 3, 1, 4, policy, {}});
  }
  all.push_back({"TwoEncoders", with({"pixels", "sketch"}, {}), 2, 1, 5, "nested", {}});
  all.push_back({"TwoGenerators", with({"pixels"}, {"target", "depth"}), 2, 1, 5, "nested", {}});
  all.push_back({"GeneratorSees", with({"pixels"}, {"target"}, true), 3, 1, 5, "nested", {}});
  for (const std::string policy : {"coupled", "nested", "filled"}) {
    TinyOptions aside = with({"pixels"}, {"target"}, true);
    aside.llm_sees = false;  // an edge that skips the LLM
    all.push_back({text("EncoderForTheGeneratorAlone_", policy), aside, 3, 1, 4, policy, {}});
    aside.frozen = {"llm.*", "text.*"};
    all.push_back({text("EncoderAsideOfAFrozenLlm_", policy), aside, 2, 1, 4, policy, {}});
  }
  all.push_back({"TextOnlyModel", with({}, {}), 3, 1, 4, "nested", {}});
  all.push_back({"FrozenLlm", frozen({"llm.*", "text.*"}), 3, 1, 4, "nested", {}});
  all.push_back({"FrozenEncoder", frozen({"see_*"}), 3, 1, 4, "nested", {}});
  all.push_back({"FrozenGenerator", frozen({"draw_*"}), 2, 1, 4, "nested", {}});
  all.push_back({"ProjectorAlone",
                 frozen({"llm.*", "text.*", "draw_*", "see_pixels.patch*", "see_pixels.blocks*", "see_pixels.norm*"}),
                 3,
                 1,
                 4,
                 "nested",
                 {}});
  all.push_back({"FirstStageFrozen", frozen({"see_*", "llm.layers.0.*", "llm.layers.1.*"}), 4, 1, 4, "nested", {}});
  all.push_back({"HeadAlone", frozen({"see_*", "llm.*", "draw_*"}), 2, 1, 4, "nested", {}});
  for (std::int32_t p : {1, 2, 4}) {
    TinyOptions tied;
    tied.tied = true;
    all.push_back({text("TiedP", p), tied, p, 1, 4, "nested", {}});
    TinyOptions experts;
    experts.experts = 4;
    experts.tied = true;
    all.push_back({text("ExpertsP", p), experts, p, 1, 5, "nested", {}});
  }
  {
    TinyOptions tied = deep({});
    tied.tied = true;
    all.push_back({"TiedChunks", tied, 2, 2, 4, "nested", {}});
    all.push_back({"TiedOnOneLane", tied, 1, 2, 3, "nested", {}});
  }
  const std::vector<std::pair<std::string, Pools>> pools = {
      {"One", {{"see_pixels", {0}}, {"draw_target", {1}}}},
      {"OneElsewhere", {{"see_pixels", {1}}, {"draw_target", {0}}}},
      {"Two", {{"see_pixels", {0, 1}}, {"draw_target", {1, 0}}}},
      {"Skewed", {{"see_pixels", {1, 1, 0}}, {"draw_target", {0, 0}}}},
      {"OwnDevice", {{"see_pixels", {2}}, {"draw_target", {3}}}},
      {"Mixed", {{"see_pixels", {0, 2}}, {"draw_target", {1, 2, 3}}}},
      {"Large", {{"see_pixels", {0, 1, 2, 3}}, {"draw_target", {2, 3, 0, 1}}}},
  };
  for (const auto& [name, lanes] : pools)
    for (const std::string policy : {"nested", "decoupled", "filled"})
      all.push_back({text("Pool", name, "_", policy), {}, 2, 1, 5, policy, lanes});
  all.push_back(
      {"TenSteps", with({"pixels", "sketch"}, {"target"}, true), 2, 1, 4, "nested", {{"see_pixels", {0, 1}}}, 10});
  return all;
}

class Equivalence : public testing::TestWithParam<Case> {};

TEST_P(Equivalence, LossesAndGradientsEqualTheSerialOnes) {
  const Case& c = GetParam();
  auto serial = actors::make_serial_job(spec_of(c));
  Runtime runtime;
  std::unique_ptr<actors::Job> job;
  try {
    job = actors::make_pipeline_job(runtime, spec_of(c));
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
  expect_equal(job->parameters(), serial->parameters());
  for (int step = 0; step < c.steps; ++step) {
    SCOPED_TRACE(text("step ", step + 1));
    const auto reference = serial->step();
    const auto report = job->step();
    expect_equal(report, reference);
    expect_equal(job->gradients(), serial->gradients());
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  expect_equal(job->parameters(), serial->parameters());
}

INSTANTIATE_TEST_SUITE_P(Features, Equivalence, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

/// All gradients of an encoder or generator.
double largest(const std::map<std::string, torch::Tensor>& gradients, const std::string& prefix) {
  double largest = 0;
  for (const auto& [name, gradient] : gradients)
    if (name.rfind(prefix, 0) == 0) largest = std::max(largest, gradient.abs().max().item<double>());
  return largest;
}

TEST(Equivalence, TextOnlyStepLeavesModalitiesWithoutGradient) {
  const TinyOptions model = with({"pixels"}, {"target"});
  const auto plain = tiny_job(model);
  const auto text_only = ids_of_step(plain, 2);
  auto data = tiny_data(model, 0.5, [text_only](const modules::Sample& sample, std::string_view input, bool drawn) {
    return input == "labels" ? drawn : sample.draw > 0 || !text_only.count(sample.id);
  });
  for (std::int32_t stages : {1, 2, 3}) {
    auto spec = tiny_job(model, data);
    spec.schedule.stages = stages;
    auto serial = actors::make_serial_job(spec);
    Runtime runtime;
    auto job = actors::make_pipeline_job(runtime, spec);
    for (int step = 1; step <= 3; ++step) {
      SCOPED_TRACE(text("step ", step, " of ", stages, " stages"));
      expect_equal(job->step(), serial->step());
      const auto gradients = job->gradients();
      expect_equal(gradients, serial->gradients());
      EXPECT_EQ(largest(gradients, "see_pixels") > 0, step != 2);
      EXPECT_EQ(largest(gradients, "draw_target") > 0, step != 2);
      EXPECT_GT(largest(gradients, "llm"), 0);
    }
  }
}

TEST(Equivalence, AModalityThatNoSampleHas) {
  const TinyOptions model = with({"pixels", "sketch"}, {"target"});
  auto spec = tiny_job(model, tiny_data(model, 1, [](const modules::Sample&, std::string_view input, bool drawn) {
                         return drawn && input != "sketch";
                       }));
  spec.schedule.stages = 2;
  auto serial = actors::make_serial_job(spec);
  Runtime runtime;
  auto job = actors::make_pipeline_job(runtime, spec);
  for (int step = 0; step < 2; ++step) {
    expect_equal(job->step(), serial->step());
    expect_equal(job->gradients(), serial->gradients());
  }
  EXPECT_EQ(largest(job->gradients(), "see_sketch"), 0);
}

/// The same samples in one microbatch or in many: nothing is scaled by M, nothing is taken from the first one's shape.
TEST(Equivalence, ResultsDoNotDependOnTheNumberOfMicrobatches) {
  const TinyOptions model = with({"pixels"}, {"target"}, true);
  auto spec = tiny_job(model);
  spec.schedule.microbatches = 1;
  spec.schedule.microbatch_size = 8;
  auto whole = actors::make_serial_job(spec);
  const auto reference = whole->step();
  for (std::int32_t m : {1, 2, 4, 8}) {
    SCOPED_TRACE(text("M ", m));
    auto cut = spec;
    cut.schedule.stages = 2;
    cut.schedule.microbatches = m;
    cut.schedule.microbatch_size = 8 / m;
    Runtime runtime;
    auto job = actors::make_pipeline_job(runtime, cut);
    expect_equal(job->step(), reference);
    expect_equal(job->gradients(), whole->gradients());
  }
}

/// Evaluation changes nothing, and gives what the plain loop gives.
TEST(Equivalence, EvaluationAmongSteps) {
  const TinyOptions model = with({"pixels"}, {"target"});
  auto spec = tiny_job(model);
  spec.schedule.stages = 2;
  auto serial = actors::make_serial_job(spec);
  Runtime runtime;
  auto job = actors::make_pipeline_job(runtime, spec);
  std::map<std::string, double> first;
  for (int step = 0; step < 3; ++step) {
    expect_equal(job->step(), serial->step());
    const auto losses = job->evaluate(7), expected = serial->evaluate(7);
    ASSERT_EQ(losses.size(), expected.size());
    for (const auto& [name, loss] : expected) EXPECT_NEAR(losses.at(name), loss, 1e-10 * std::abs(loss)) << name;
    if (step == 0) first = losses;
    EXPECT_EQ(job->evaluate(7), losses);
  }
  EXPECT_NE(job->evaluate(7), first);
}

}  // namespace
}  // namespace nestor::test
