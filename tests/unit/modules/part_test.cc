#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "live_bytes.h"
#include "toy_model.h"

namespace nestor::test {
namespace {

using modules::Microbatch;
using modules::Part;
using modules::PartOptions;
using testing::HasSubstr;

struct Case {
  std::string name;
  ToyOptions options;
  std::vector<std::string> batch;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

const std::vector<std::string> kMixed = {"vat,v", ",", "t,at", "va,vt,", "-v"};

std::vector<Case> cases() {
  ToyOptions plain, no_generator, untied;
  no_generator.generator = no_generator.audio = false;
  untied.tied = false;
  auto frozen = [](std::vector<std::string> patterns) {
    ToyOptions options;
    options.frozen = std::move(patterns);
    return options;
  };
  ToyOptions frozen_untied = frozen({"llm.*"});
  frozen_untied.tied = false;
  return {{"Everything", plain, kMixed},
          {"OneMicrobatch", plain, {"vat,v,,t"}},
          {"TextOnlyStep", plain, {",", "", ",,"}},
          {"EncoderOnly", no_generator, kMixed},
          {"Untied", untied, kMixed},
          {"FrozenLlm", frozen({"llm.*"}), kMixed},
          {"FrozenLlmUntied", frozen_untied, kMixed},
          {"FrozenEncoder", frozen({"vision.*"}), kMixed},
          {"FrozenEncoders", frozen({"vision.*", "hearing.*"}), kMixed},
          {"ProjectorOnly", frozen({"llm.*", "image.*", "hearing.*", "vision.s*"}), kMixed},
          {"FrozenFirstLayers", frozen({"llm.layers.0.*", "llm.layers.1.*", "vision.*", "hearing.*"}), kMixed},
          {"NoLabels", plain, {"-vt", "-"}}};
}

class PartEqualsReference : public testing::TestWithParam<Case> {};

TEST_P(PartEqualsReference, AtEveryCutOnOneLaneAndOnMany) {
  const modules::Model model = toy_model(GetParam().options);
  const auto batch = toy_batch(GetParam().batch);
  const Outcome reference = reference_outcome(model, batch, torch::kFloat64);
  for (const std::vector<int>& cuts : {std::vector<int>{}, {1}, {2}, {3}, {1, 2, 3}}) {
    for (bool one_lane : {true, false}) {
      for (bool use_outline : {true, false}) {
        const Outcome parts = part_outcome(model, batch, torch::kFloat64, cuts, one_lane, use_outline);
        EXPECT_LE(difference(reference, parts), 1e-12) << cuts.size() << " cuts, one lane " << one_lane;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PartEqualsReference, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(Part, GradientsOfAnAbsentModalityAreAbsent) {
  const Outcome outcome = part_outcome(toy_model(), toy_batch({",", "t"}), torch::kFloat64, {2}, false);
  EXPECT_FALSE(outcome.gradients.at("vision.weight").defined());
  EXPECT_FALSE(outcome.gradients.at("image.from_vision").defined());
  EXPECT_TRUE(outcome.gradients.at("image.weight").defined());
  EXPECT_FALSE(outcome.gradients.at("vision.spare").defined());
}

TEST(Part, GradientsDoNotDependOnTheGrouping) {
  // The same samples as one, as two, as five microbatches; dropout and noise hang on the sample alone, padding of the
  // dropout mask on the microbatch's length: so all samples are given one length.
  auto same_length = [](modules::StepBatch batch) {
    std::int64_t id = 40;
    for (auto& microbatch : batch.microbatches)
      for (auto& sample : microbatch.samples) {
        sample.counts["tokens"] = 5;
        sample.counts["labels"] = 4;
        sample.id = id++;
      }
    return batch;
  };
  ToyOptions options;
  options.generator = false;  // it adds the sum of the microbatch's rows: not separable
  const auto model = toy_model(options);
  const auto one = reference_outcome(model, same_length(toy_batch({"va,v,,a,va,v"})), torch::kFloat64);
  for (const auto& grouping : {std::vector<std::string>{"va,v,", "a,va,v"}, {"va", "v", "", "a", "va", "v"}})
    EXPECT_LE(difference(one, part_outcome(model, same_length(toy_batch(grouping)), torch::kFloat64, {2}, false)),
              1e-12);
}

TEST(Part, FrozenTowerKeepsNoGraph) {
  ToyOptions toy;
  toy.frozen = {"vision.*", "llm.*"};
  toy.tied = false;
  const auto model = toy_model(toy);
  ToyDataset dataset;
  PartOptions options;
  options.frozen_sources = {"vision", "hearing"};
  modules::ParameterStore store;
  auto vision = modules::make_part(model, {"vision"}, options, dataset, store);
  auto stage = modules::make_part(model, {"llm", 0, 2}, options, dataset, store);
  const auto batch = toy_batch({"va,v"});
  const auto scales = modules::step_counts(model, batch).scales;
  LiveBytes live;
  const auto before = live.now();
  {
    auto seen = vision->forward({}, batch.microbatches[0], scales, true);
    EXPECT_EQ(seen.stash, nullptr);
    for (const Tensor& output : seen.outputs) EXPECT_FALSE(output.requires_grad());
    Tensors heard = {torch::ones({1, kWidth})};
    auto forward = stage->forward({seen.outputs, heard}, batch.microbatches[0], scales, true);
    EXPECT_EQ(forward.stash, nullptr);
    const std::int64_t hidden = forward.outputs[0].nbytes();
    seen = {};
    heard.clear();
    EXPECT_EQ(live.now() - before, hidden) << "the second output is a view of the first";
    auto gradients = stage->backward(nullptr, {});
    EXPECT_EQ(gradients.size(), 2U);
  }
  EXPECT_EQ(live.now(), before);
}

TEST(Part, BackwardFreesWhatForwardKept) {
  const auto model = toy_model();
  ToyDataset dataset;
  modules::ParameterStore store;
  auto stage = modules::make_part(model, {"llm", 1, 3}, PartOptions(), dataset, store);
  const auto batch = toy_batch({"va,v,,"});
  const auto scales = modules::step_counts(model, batch).scales;
  LiveBytes live;
  auto input = [&] { return std::vector<Tensors>{{torch::ones({4, 6, kWidth}), torch::ones({4, kWidth})}}; };
  std::int64_t after_first = 0;
  for (int round = 0; round < 3; ++round) {
    auto forward = stage->forward(input(), batch.microbatches[0], scales, true);
    ASSERT_NE(forward.stash, nullptr);
    const auto kept = live.now();
    Tensors gradients = {torch::ones_like(forward.outputs[0]), torch::ones_like(forward.outputs[1])};
    auto result = stage->backward(std::move(forward.stash), gradients);
    EXPECT_LT(live.now(), kept);
    forward = {};
    gradients.clear();
    result.clear();
    if (round == 0) after_first = live.now();
    EXPECT_EQ(live.now(), after_first) << "round " << round;  // parameter gradients alone remain
  }
}

TEST(Part, AnOutputIsFreeOnceItIsSent) {
  // An addition needs none of its operands for its backward: nothing but the reader holds the output.
  struct Add : modules::Module {
    explicit Add(modules::Seed) { bias = register_parameter("bias", torch::zeros({1})); }
    Tensors forward(const Tensors& inputs, const modules::Context&) override { return {inputs.at(0) + bias}; }
    Tensor bias;
  };
  modules::Model model;
  auto pixels = model.input("pixels");
  auto seen = model.encoder("vision", {pixels}, [](modules::Seed seed) { return std::make_shared<Add>(seed); });
  auto hidden =
      model.llm("llm", {seen}, {modules::make_factory([](modules::Seed seed) { return std::make_shared<Add>(seed); })});
  auto logits = model.head("text", {hidden}, [](modules::Seed seed) { return std::make_shared<Add>(seed); });
  model.loss("text", {logits},
             {[](const Tensors& in, const modules::Context&) { return in.at(0).sum(); }, modules::count_of("pixels")});
  ToyDataset dataset;
  modules::ParameterStore store;
  auto vision = modules::make_part(model, {"vision"}, PartOptions(), dataset, store);
  const auto batch = toy_batch({"v,v"});
  LiveBytes live;
  auto forward = vision->forward({}, batch.microbatches[0], modules::step_counts(model, batch).scales, true);
  ASSERT_NE(forward.stash, nullptr);
  forward.outputs.clear();
  EXPECT_EQ(live.now(), 0);
  vision->backward(std::move(forward.stash), {torch::ones({2, kPixels})});
  EXPECT_EQ(store.find("vision.bias").grad().item<float>(), 2 * kPixels);
}

TEST(Part, EvaluationKeepsNothingAndUsesNoDropout) {
  const auto model = toy_model();
  ToyDataset dataset;
  PartOptions options;
  options.dtype = torch::kFloat64;
  options.seed = modules::Seed(7);
  modules::ParameterStore store;
  auto llm = modules::make_part(model, {"llm", 0, 4}, options, dataset, store);
  modules::WholeModel whole(model, options);
  const auto batch = toy_batch({",,"});
  auto forward = llm->evaluate({{}, {}}, batch.microbatches[0]);
  EXPECT_EQ(forward.stash, nullptr);
  auto reference = whole.evaluate(batch.microbatches[0], dataset);
  EXPECT_NEAR(forward.losses.at("text"), reference.at("text"), 1e-12);
  auto trained = llm->forward({{}, {}}, batch.microbatches[0], modules::step_counts(model, batch).scales, false);
  EXPECT_EQ(trained.stash, nullptr);
  EXPECT_NE(trained.losses.at("text"), forward.losses.at("text"));
}

TEST(Part, TwoMembersOnOneLaneShareTheirParameters) {
  const auto model = toy_model();
  ToyDataset dataset;
  modules::ParameterStore store;
  auto a = modules::make_part(model, {"vision"}, PartOptions(), dataset, store);
  auto b = modules::make_part(model, {"vision"}, PartOptions(), dataset, store);
  EXPECT_TRUE(a->parameters()[0].second.is_same(b->parameters()[0].second));
  const auto batch = toy_batch({"v", "v"});
  auto run = [&](Part& part, int m) {
    auto forward = part.forward({}, batch.microbatches[static_cast<std::size_t>(m)], {}, true);
    part.backward(std::move(forward.stash), {torch::ones({1, kWidth}), {}, {}});
    return store.find("vision.weight").grad().clone();
  };
  const Tensor first = run(*a, 0), both = run(*b, 1);
  store.find("vision.weight").mutable_grad().reset();
  const Tensor second = run(*b, 1);
  EXPECT_TRUE(torch::allclose(both, first + second));
  {
    torch::NoGradGuard no_grad;
    store.find("vision.weight").fill_(0);
  }
  EXPECT_EQ(b->forward({}, batch.microbatches[0], {}, false).outputs[0].abs().max().item<float>(), 0);
}

TEST(Part, ErrorsNameModuleAndMicrobatch) {
  const auto model = toy_model();
  ToyDataset dataset;
  modules::ParameterStore store;
  auto stage = modules::make_part(model, {"llm", 1, 3}, PartOptions(), dataset, store);
  const auto batch = toy_batch({"", ""});
  const auto scales = modules::step_counts(model, batch).scales;
  auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const modules::Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string forward = message([&] {
    stage->forward({{torch::ones({1, 3, kWidth + 1}), Tensor()}}, batch.microbatches[1], scales, true);
  });
  EXPECT_THAT(forward, HasSubstr("llm.layers.1: forward of microbatch 1 of step 3: "));
  EXPECT_EQ(forward.find('\n'), std::string::npos);
  auto good = stage->forward({{torch::ones({1, 3, kWidth}), Tensor()}}, batch.microbatches[0], scales, true);
  EXPECT_THAT(message([&] {
                stage->backward(std::move(good.stash), {torch::ones({2}), Tensor()});
              }),
              HasSubstr("llm.layers.1-2: the gradient of output 0 does not fit it in microbatch 0 of step 3"));
  EXPECT_THAT(message([&] { stage->forward({}, batch.microbatches[0], scales, true); }), HasSubstr("0 inputs for 1"));
  EXPECT_THAT(message([&] { modules::make_part(model, {"sight"}, PartOptions(), dataset, store); }),
              HasSubstr("'sight'"));
  EXPECT_THAT(message([&] {
                modules::make_part(model, {"llm", 2, 5}, PartOptions(), dataset, store);
              }),
              HasSubstr("layers 2 to 5 of 4"));
}

TEST(Part, LowPrecisionRunsFromTheSameWeights) {
  const auto model = toy_model();
  ToyDataset dataset;
  modules::ParameterStore narrow, wide;
  PartOptions options;
  options.dtype = torch::kBFloat16;
  auto part = modules::make_part(model, {"vision"}, options, dataset, narrow);
  auto full = modules::make_part(model, {"vision"}, PartOptions(), dataset, wide);
  EXPECT_TRUE(torch::equal(narrow.find("vision.weight"), wide.find("vision.weight").to(torch::kBFloat16)));
  auto forward = part->forward({}, toy_batch({"v"}).microbatches[0], {}, true);
  EXPECT_EQ(forward.outputs[0].scalar_type(), torch::kBFloat16);
}

}  // namespace
}  // namespace nestor::test
