#include "tiny_model.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include <nestor/modules/data/sampler.h>
#include <nestor/modules/encoder/vit.h>
#include <nestor/modules/generator/mmdit.h>
#include <nestor/modules/llm/qwen3.h>
#include <nestor/modules/modules.h>

namespace nestor::test {
namespace {

constexpr std::int64_t kVocabulary = 40, kImage = 8, kPatch = 4, kPatches = 4;

/// A placeholder of its own for each encoder's input.
std::int64_t placeholder(std::size_t encoder) {
  return 8 + static_cast<std::int64_t>(encoder);
}

}  // namespace

modules::Model tiny_model(const TinyOptions& options) {
  modules::Model model;
  std::map<std::string, modules::Value> seen;
  const auto tokens = model.input("tokens"), labels = model.input("labels");
  std::vector<modules::Value> llm_inputs{tokens};
  modules::Qwen3Options llm;
  llm.vocabulary = kVocabulary;
  llm.layers = options.layers;
  llm.width = options.width;
  llm.heads = 2;
  llm.kv_heads = 1;
  llm.head_dim = options.width / 2;
  llm.ffn = options.width * 3 / 2;
  llm.experts = options.experts;
  for (std::size_t i = 0; i < options.encoders.size(); ++i) {
    modules::VitOptions vit;
    vit.patch = kPatch;
    vit.width = options.width;
    vit.layers = 1;
    vit.heads = 2;
    vit.ffn = 2 * options.width;
    vit.llm_width = options.width;
    vit.image_size = kImage;
    vit.input = options.encoders[i];
    seen[vit.input] = model.encoder("see_" + vit.input, {model.input(vit.input)},
                                    [vit](Seed seed) { return modules::VisionTransformer(vit, seed); });
    if (i == 0 && !options.llm_sees) continue;
    llm_inputs.push_back(seen[vit.input]);
    llm.splices.push_back({placeholder(i), vit.input});
  }
  const auto hidden = model.llm("llm", llm_inputs, modules::decoder_layers(llm));
  const auto logits = model.head("text", {hidden}, [llm](Seed seed) { return modules::LanguageHead(llm, seed); });
  model.loss("text", {logits, labels}, token_cross_entropy);
  if (options.tied) model.tie("text.weight", "llm.layers.0.weight");
  if (options.experts > 0) {
    const auto layers = options.layers;
    model.layer_loss(
        "balance", [layers](const Sample&) { return layers; }, 0.1);
  }
  for (const std::string& target : options.generators) {
    modules::MmditOptions mmdit;
    mmdit.image_size = kImage;
    mmdit.patch = kPatch;
    mmdit.width = options.width;
    mmdit.layers = 1;
    mmdit.heads = 2;
    mmdit.ffn = 2 * options.width;
    mmdit.target = target;
    mmdit.contexts.push_back({modules::ContextSource::Kind::sequence, "tokens", options.width, 0});
    std::vector<modules::Value> inputs{hidden};
    if (options.generator_sees) {
      mmdit.contexts.push_back({modules::ContextSource::Kind::images, options.encoders[0], options.width, kPatches});
      inputs.push_back(seen[options.encoders[0]]);
    }
    inputs.push_back(model.input(target));
    model.generator(
        "draw_" + target, inputs, [mmdit](Seed seed) { return modules::DiffusionTransformer(mmdit, seed); },
        modules::count_of(target), 0.7);
  }
  for (const auto& pattern : options.frozen) model.freeze(pattern);
  return model;
}

std::shared_ptr<const modules::Dataset> tiny_data(
    const TinyOptions& options, double share,
    std::function<bool(const modules::Sample&, std::string_view, bool)> presence) {
  modules::SyntheticOptions data;
  data.samples = 64;
  data.held_out = 10;
  data.vocabulary = kVocabulary;
  data.shortest = options.shortest;
  data.longest = options.longest;
  data.image_size = kImage;
  for (std::size_t i = 0; i < options.encoders.size(); ++i)
    data.images.push_back({options.encoders[i], share, kPatches, placeholder(i)});
  for (const auto& target : options.generators) data.images.push_back({target, share, 0, 0});
  data.presence = std::move(presence);
  return std::make_shared<modules::SyntheticDataset>(data);
}

actors::JobSpec tiny_job(const TinyOptions& options, std::shared_ptr<const modules::Dataset> data) {
  actors::JobSpec spec;
  spec.model = tiny_model(options);
  spec.dataset = data ? std::move(data) : tiny_data(options);
  spec.dtype = torch::kFloat64;
  spec.seed = 7;
  spec.schedule.microbatches = 3;
  spec.schedule.microbatch_size = 2;
  spec.optimizer.lr = 1e-2;
  spec.optimizer.epsilon = 1e-3;
  spec.step_deadline = std::chrono::seconds(60);
  return spec;
}

std::set<std::int64_t> ids_of_step(const actors::JobSpec& spec, std::int64_t step) {
  const modules::Sampler sampler(*spec.dataset, modules::Seed(spec.seed),
                                 std::int64_t{spec.schedule.microbatches} * spec.schedule.microbatch_size);
  std::set<std::int64_t> ids;
  for (const auto& [id, draw] : sampler.ids(step - 1)) ids.insert(id);
  return ids;
}

void expect_equal(const actors::StepReport& step, const actors::StepReport& reference) {
  auto near = [](double a, double b, const std::string& what) {
    EXPECT_LE(std::abs(a - b), 1e-10 * std::max(std::abs(b), 1e-30)) << what << ": " << a << " and " << b;
  };
  EXPECT_EQ(step.step, reference.step);
  near(step.loss, reference.loss, "loss");
  ASSERT_EQ(step.losses.size(), reference.losses.size());
  for (const auto& [name, loss] : reference.losses) near(step.losses.at(name), loss, "loss " + name);
  near(step.grad_norm, reference.grad_norm, "norm");
  EXPECT_EQ(step.skipped, reference.skipped);
  EXPECT_EQ(step.tokens, reference.tokens);
  EXPECT_EQ(step.samples, reference.samples);
}

void expect_equal(const std::map<std::string, torch::Tensor>& gradients,
                  const std::map<std::string, torch::Tensor>& reference) {
  double largest = 0;
  for (const auto& [name, gradient] : reference) largest = std::max(largest, gradient.abs().max().item<double>());
  EXPECT_GT(largest, 0);
  ASSERT_EQ(gradients.size(), reference.size());
  for (const auto& [name, expected] : reference) {
    ASSERT_TRUE(gradients.count(name)) << name;
    const double own = expected.abs().max().item<double>();
    const double difference = (gradients.at(name) - expected).abs().max().item<double>();
    EXPECT_LE(difference, 1e-10 * std::max(own, 1e-3 * largest)) << name;
    if (own == 0) {
      EXPECT_EQ(difference, 0) << name << " has a gradient where there is none";
    }
  }
}

}  // namespace nestor::test
