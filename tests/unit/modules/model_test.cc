#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/modules/model.h>

#include "toy_model.h"

namespace nestor::test {
namespace {

using modules::Context;
using modules::Model;
using modules::Seed;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

struct Nothing : modules::Module {
  explicit Nothing(Seed) {}
  Tensors forward(const Tensors& inputs, const Context&) override { return inputs; }
};
std::shared_ptr<modules::Module> nothing(Seed seed) {
  return std::make_shared<Nothing>(seed);
}

/// Declares the least that is valid, lets `change` add to it, and returns what validate says.
template <class F>
std::string verdict(F change) {
  Model model;
  try {
    auto tokens = model.input("tokens"), labels = model.input("labels");
    auto hidden = model.llm("llm", {tokens}, {nothing});
    auto logits = model.head("text", {hidden}, nothing);
    model.loss("text", {logits, labels}, modules::token_cross_entropy);
    change(model, tokens, hidden, logits);
    model.validate();
  } catch (const modules::Error& error) {
    return error.what();
  }
  return "valid";
}

TEST(Model, ValidatesWhatIsDeclared) {
  using V = modules::Value;
  EXPECT_EQ(verdict([](Model&, V, V, V) {}), "valid");
  EXPECT_EQ(verdict([](Model& m, V tokens, V hidden, V) {
              m.generator("image", {hidden, tokens}, nothing, modules::count_of("tokens"));
            }),
            "valid");
  EXPECT_THAT(verdict([](Model& m, V tokens, V, V) { m.llm("two", {tokens}, {nothing}); }),
              HasSubstr("model.llm.two: there is an LLM already"));
  EXPECT_THAT(verdict([](Model& m, V, V, V) { m.input("tokens"); }),
              HasSubstr("model.input.tokens: the name is taken"));
  EXPECT_THAT(verdict([](Model& m, V, V, V) { m.input("a b"); }), HasSubstr("not a name"));
  EXPECT_THAT(verdict([](Model& m, V tokens, V, V) { m.encoder("unread", {tokens}, nothing); }),
              HasSubstr("model.encoder.unread: nothing reads it"));
  EXPECT_THAT(verdict([](Model& m, V, V hidden, V) { m.encoder("late", {hidden}, nothing); }),
              HasSubstr("it may not read llm 'llm'"));
  EXPECT_THAT(verdict([](Model& m, V tokens, V, V) { m.encoder("e", {tokens}, nothing, 0); }), HasSubstr("0 outputs"));
  EXPECT_THAT(verdict([](Model& m, V tokens, V, V) { m.head("h", {tokens}, nothing); }),
              HasSubstr("does not read the LLM"));
  EXPECT_THAT(
      verdict([](Model& m, V tokens, V, V) { m.generator("g", {tokens}, nothing, modules::count_of("tokens")); }),
      HasSubstr("reads neither"));
  EXPECT_THAT(verdict([](Model& m, V, V hidden, V) { m.generator("g", {hidden}, nothing, {}); }),
              HasSubstr("model.generator.g: its loss has no count"));
  EXPECT_THAT(verdict([](Model& m, V, V hidden, V) {
                m.generator("g", {hidden}, nothing, modules::count_of("tokens"), std::nan(""));
              }),
              HasSubstr("weight is not a number"));
  EXPECT_THAT(
      verdict([](Model& m, V, V hidden, V) { m.generator("text", {hidden}, nothing, modules::count_of("tokens")); }),
      HasSubstr("the name is taken"));
  EXPECT_THAT(verdict([](Model& m, V, V hidden, V) { m.loss("l", {hidden}, modules::token_cross_entropy); }),
              HasSubstr("model.loss.l: it reads 'llm'"));
  EXPECT_THAT(verdict([](Model& m, V tokens, V, V) { m.loss("l", {tokens}, modules::token_cross_entropy); }),
              HasSubstr("it reads no head"));
  EXPECT_THAT(verdict([](Model& m, V, V, V logits) { m.loss("l", {logits}, {}); }), HasSubstr("no count"));
  EXPECT_THAT(verdict([](Model& m, V, V, V) { m.head("h", {V{17}}, nothing); }),
              HasSubstr("not a value of this model"));
  EXPECT_THAT(verdict([](Model& m, V, V, V) {
                m.tie("a.w", "b.w");
                m.tie("b.w", "a.w");
              }),
              HasSubstr("go in a circle"));
  EXPECT_THAT(verdict([](Model& m, V, V, V) {
                m.tie("a.w", "b.w");
                m.tie("a.w", "c.w");
              }),
              HasSubstr("tied twice"));
}

TEST(Model, WithoutAnLlmOrALossIsRefused) {
  Model model;
  EXPECT_THROW(model.validate(), modules::Error);
  model.llm("llm", {model.input("tokens")}, {nothing});
  EXPECT_THROW(model.validate(), modules::Error);
}

TEST(Model, GlobsMatchAsInAShell) {
  for (auto [pattern, name, expected] : std::vector<std::tuple<const char*, const char*, bool>>{
           {"llm.*", "llm.layers.0.w", true},
           {"llm.*", "llm2.w", false},
           {"*.bias", "a.b.bias", true},
           {"*.bias", "a.bias.x", false},
           {"vision.patch*", "vision.patch.weight", true},
           {"a?c", "abc", true},
           {"a?c", "ac", false},
           {"*a*b*", "xxaxxbxx", true},
           {"*a*b*", "xxbxxa", false},
           {"", "", true},
           {"*", "", true},
           {"a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
       })
    EXPECT_EQ(modules::glob_match(pattern, name), expected) << pattern << " " << name;
}

TEST(Model, PresenceFollowsTheRawInputs) {
  const Model model = toy_model();
  const auto batch = toy_batch({"v", "", "t", "vt"});
  auto present = [&](const char* node) {
    std::vector<bool> result;
    for (const auto& microbatch : batch.microbatches) result.push_back(model.present(*model.find(node), microbatch));
    return result;
  };
  EXPECT_THAT(present("vision"), ElementsAre(true, false, false, true));
  EXPECT_THAT(present("image"), ElementsAre(false, false, true, true));
  EXPECT_THAT(present("llm"), ElementsAre(true, true, true, true));
}

TEST(Outline, KnowsParametersTiesAndWhatIsFrozen) {
  ToyOptions options;
  options.frozen = {"vision.*", "hearing.*", "llm.layers.0.*", "llm.layers.1.*"};
  const Model model = toy_model(options);
  const auto batch = toy_batch({"v", ""});
  const auto outline = modules::outline(model, Seed(7), batch.microbatches);
  EXPECT_FALSE(outline.trainable("vision"));
  EXPECT_TRUE(outline.trainable("llm"));
  EXPECT_THAT(outline.tied(), ElementsAre(Pair("llm.layers.0.embedding.weight", ElementsAre("llm.layers.0", "text"))));
  EXPECT_THAT(outline.frozen_sources(model, {"llm", 0, 1}), ElementsAre("vision", "hearing"));
  EXPECT_THAT(outline.frozen_sources(model, {"llm", 2, 4}), ElementsAre("llm"));
  EXPECT_THAT(outline.frozen_sources(model, {"llm", 3, 4}), IsEmpty());
  EXPECT_THAT(outline.frozen_sources(model, {"image"}), ElementsAre("vision"));
  const auto* vision = outline.of("vision").at(0);
  EXPECT_EQ(vision->parameters.at(0).name, "vision.weight");
  EXPECT_THAT(vision->parameters.at(0).shape, ElementsAre(kPixels, 2 * kWidth));
  EXPECT_GT(vision->forward_flops.at(0), 0);
  EXPECT_EQ(vision->forward_flops.at(1), 0);
}

TEST(Outline, NamesTiesAndPatternsThatMatchNothing) {
  auto message = [](auto change) -> std::string {
    Model model = toy_model();
    change(model);
    try {
      modules::outline(model, Seed(7));
    } catch (const modules::Error& error) {
      return error.what();
    }
    return "fine";
  };
  EXPECT_EQ(message([](Model&) {}), "fine");
  EXPECT_THAT(message([](Model& m) { m.freeze("vison.*"); }), HasSubstr("'vison.*' matches no parameter"));
  EXPECT_THAT(message([](Model& m) { m.freeze("text.*"); }),
              HasSubstr("'text.weight' is tied: freeze 'llm.layers.0.embedding.weight'"));
  EXPECT_THAT(message([](Model& m) { m.tie("image.weigth", "vision.weight"); }),
              HasSubstr("no parameter 'image.weigth'"));
  EXPECT_THAT(message([](Model& m) { m.tie("image.weight", "vision.weight"); }), HasSubstr("different shapes"));
}

TEST(Seed, StreamsAreStableAndApart) {
  // Literals: a change here changes every run ever made.
  EXPECT_EQ(Seed(1).child("weights").value(), 15805138958067633546ULL);
  EXPECT_EQ(Seed(1).child(std::int64_t{1}).value(), 537277520976245951ULL);
  EXPECT_EQ(modules::weight_seed(Seed(1), "llm.layers.0").value(), 3042284608363826936ULL);
  EXPECT_EQ(modules::step_seed(Seed(1), 3).value(), 8166352091337942300ULL);
  Tensor drawn = torch::randint(1000000, {2}, Seed(5).generator(), torch::TensorOptions().dtype(torch::kInt64));
  EXPECT_EQ(drawn[0].item<std::int64_t>(), 148932);
  EXPECT_NE(Seed(1).child("1").value(), Seed(1).child(std::int64_t{1}).value());
  EXPECT_NE(Seed(1).child("a").child("b").value(), Seed(1).child("b").child("a").value());
  std::set<std::uint64_t> seen;
  for (std::uint64_t run = 0; run < 20; ++run)
    for (std::int64_t step = 0; step < 100; ++step)
      for (const char* use : {"dropout", "noise", "time"}) seen.insert(Seed(run).child(step).child(use).value());
  EXPECT_EQ(seen.size(), 6000U);
}

TEST(Seed, GeneratorsAreFreshAndUseAllBits) {
  auto draw = [](Seed seed) { return torch::randn({4}, seed.generator(), torch::TensorOptions()); };
  EXPECT_TRUE(torch::equal(draw(Seed(9)), draw(Seed(9))));
  // LibTorch's own seeding would take these two for one.
  EXPECT_FALSE(torch::equal(draw(Seed(9)), draw(Seed(9 + (1ULL << 32)))));
  Tensor many = torch::rand({200000}, Seed(3).generator(), torch::TensorOptions().dtype(torch::kFloat64));
  EXPECT_NEAR(many.mean().item<double>(), 0.5, 0.003);
  EXPECT_NEAR(many.var().item<double>(), 1.0 / 12, 0.002);
}

TEST(Seed, ContextDrawsDependOnEachPartOfTheName) {
  const auto batch = toy_batch({","});
  const auto& microbatch = batch.microbatches[0];
  Context context{microbatch, modules::step_seed(Seed(1), 3), "llm.layers.1"};
  auto draw = [&](const Context& c, const modules::Sample& sample, const char* use) {
    return torch::rand({1}, c.random(sample, use), torch::TensorOptions().dtype(torch::kFloat64)).item<double>();
  };
  modules::Sample sample = microbatch.samples[0], other_draw = sample, other_split = sample;
  other_draw.draw = 1;
  other_split.split = modules::Split::held_out;
  Context other_module = context, other_step = context;
  other_module.module = "llm.layers.2";
  other_step.seed = modules::step_seed(Seed(1), 4);
  const std::set<double> values = {
      draw(context, sample, "dropout"),     draw(context, microbatch.samples[1], "dropout"),
      draw(context, other_draw, "dropout"), draw(context, other_split, "dropout"),
      draw(context, sample, "noise"),       draw(other_module, sample, "dropout"),
      draw(other_step, sample, "dropout")};
  EXPECT_EQ(values.size(), 7U);
}

}  // namespace
}  // namespace nestor::test
