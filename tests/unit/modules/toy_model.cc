#include "toy_model.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace nestor::test {
namespace {

using modules::Context;
using modules::Microbatch;
using modules::Module;
using modules::Sample;
using modules::Seed;

Tensor draw(Seed seed, std::string_view name, at::IntArrayRef shape) {
  return torch::randn(shape, seed.child(name).generator(), torch::TensorOptions()) * 0.4;
}

class Vision : public Module {
 public:
  explicit Vision(Seed seed) {
    weight_ = register_parameter("weight", draw(seed, "weight", {kPixels, 2 * kWidth}));
    scale_ = register_parameter("scale", draw(seed, "scale", {kWidth}));
    spare_ = register_parameter("spare", draw(seed, "spare", {kWidth}));
  }
  Tensors forward(const Tensors& inputs, const Context&) override {
    Tensor both = torch::tanh(inputs.at(0).matmul(weight_));
    return {both.slice(1, 0, kWidth), both.slice(1, kWidth), both.slice(1, 0, kWidth) * spare_ + scale_.sum()};
  }

 private:
  Tensor weight_, scale_, spare_;
};

class Audio : public Module {
 public:
  explicit Audio(Seed seed) { weight_ = register_parameter("weight", draw(seed, "weight", {kPixels, kWidth})); }
  Tensors forward(const Tensors& inputs, const Context&) override { return {inputs.at(0).matmul(weight_)}; }

 private:
  Tensor weight_;
};

/// Adds row i of `rows` to the first position of the i-th sample that has the input.
Tensor add_rows(const Tensor& hidden, const Tensor& rows, const Context& context, std::string_view input) {
  std::vector<std::int64_t> owners;
  for (std::size_t i = 0; i < context.microbatch.samples.size(); ++i)
    if (context.microbatch.samples[i].has(input)) owners.push_back(static_cast<std::int64_t>(i));
  Tensor added = torch::zeros_like(hidden.select(1, 0)).index_add(0, torch::tensor(owners), rows);
  return hidden + added.unsqueeze(1);
}

class First : public Module {
 public:
  explicit First(Seed seed) {
    auto embedding = std::make_shared<torch::nn::Module>("embedding");
    weight_ = embedding->register_parameter("weight", draw(seed, "embedding", {kVocabulary, kWidth}));
    register_module("embedding", embedding);
    bias_ = register_parameter("bias", draw(seed, "bias", {kWidth}));
  }
  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensor hidden = torch::embedding(weight_, inputs.at(0)) + bias_;
    if (inputs.at(1).defined()) hidden = add_rows(hidden, inputs.at(1) * inputs.at(2), context, "pixels");
    if (inputs.size() > 4 && inputs[4].defined()) hidden = add_rows(hidden, inputs[4], context, "audio");
    return {hidden, hidden.select(1, 0)};
  }

 private:
  Tensor weight_, bias_;
};

class Layer : public Module {
 public:
  Layer(Seed seed, bool second) : second_(second) {
    weight_ = register_parameter("weight", draw(seed, "weight", {kWidth, kWidth}));
  }
  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensor update = torch::tanh(inputs.at(0).matmul(weight_));
    if (context.training) {
      Tensors masks;
      for (const Sample& sample : context.microbatch.samples)
        masks.push_back(
            torch::rand({update.size(1), kWidth}, context.random(sample, "dropout"), torch::TensorOptions()));
      update = update * (torch::stack(masks) > 0.2).to(update.scalar_type());
    }
    Tensor hidden = inputs[0] + update;
    if (inputs.at(1).defined()) hidden = hidden + inputs[1].unsqueeze(1);
    context.add_loss("balance", hidden.mean({1, 2}).square().sum());
    return {hidden, second_ ? hidden.select(1, 0) : Tensor()};
  }

 private:
  bool second_;
  Tensor weight_;
};

class Head : public Module {
 public:
  explicit Head(Seed seed) { weight_ = register_parameter("weight", draw(seed, "weight", {kVocabulary, kWidth})); }
  Tensors forward(const Tensors& inputs, const Context&) override { return {inputs.at(0).matmul(weight_.t())}; }

 private:
  Tensor weight_;
};

class Generator : public Module {
 public:
  explicit Generator(Seed seed) {
    weight_ = register_parameter("weight", draw(seed, "weight", {kWidth, kTarget}));
    from_vision_ = register_parameter("from_vision", draw(seed, "from_vision", {kWidth}));
  }
  // (hidden, second, vision x 3, target)
  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensors rows;
    std::vector<std::int64_t> owners;
    for (std::size_t i = 0; i < context.microbatch.samples.size(); ++i) {
      const Sample& sample = context.microbatch.samples[i];
      if (!sample.has("target")) continue;
      owners.push_back(static_cast<std::int64_t>(i));
      rows.push_back(torch::randn({kWidth}, context.random(sample, "noise"), torch::TensorOptions()));
    }
    Tensor pooled = inputs.at(0).mean(1).index_select(0, torch::tensor(owners));
    Tensor noisy = pooled + torch::stack(rows).to(pooled.scalar_type());
    if (inputs.at(2).defined()) noisy = noisy + inputs[2].sum(0) * from_vision_;
    Tensor output = noisy.matmul(weight_);
    if (context.sampling) return {output};
    return {(output - inputs.at(5)).square().sum()};
  }

 private:
  Tensor weight_, from_vision_;
};

}  // namespace

modules::Model toy_model(const ToyOptions& options) {
  modules::Model model;
  auto pixels = model.input("pixels"), sound = model.input("audio"), tokens = model.input("tokens");
  auto labels = model.input("labels"), target = model.input("target");
  auto seen = model.encoder(
      "vision", {pixels}, [](Seed seed) { return Vision(seed); }, 3);
  std::vector<modules::Value> inputs = {tokens, seen};
  if (options.audio) inputs.push_back(model.encoder("hearing", {sound}, [](Seed seed) { return Audio(seed); }));
  std::vector<modules::ModuleFactory> layers = {modules::make_factory([](Seed seed) { return First(seed); })};
  for (int i = 1; i < options.layers; ++i)
    layers.push_back(modules::make_factory([second = i % 2 == 0](Seed seed) { return Layer(seed, second); }));
  auto hidden = model.llm("llm", inputs, layers);
  auto logits = model.head("text", {hidden}, [](Seed seed) { return std::make_shared<Head>(seed); });
  model.loss("text", {logits, labels}, modules::token_cross_entropy);
  model.layer_loss("balance", modules::samples_with("tokens"), 0.1);
  if (options.generator)
    model.generator(
        "image", {hidden, seen, target}, [](Seed seed) { return Generator(seed); }, modules::count_of("target"), 0.5);
  if (options.tied) model.tie("text.weight", "llm.layers.0.embedding.weight");
  for (const auto& pattern : options.frozen) model.freeze(pattern);
  return model;
}

modules::Sample ToyDataset::describe(modules::Split split, std::int64_t id, std::int32_t draw) const {
  Sample sample;
  sample.id = id;
  sample.split = split;
  sample.draw = draw;
  sample.counts = {{"tokens", 3 + id % 4}, {"labels", 2 + id % 4}};
  return sample;
}

Tensor ToyDataset::read(std::string_view input, const Microbatch& microbatch) const {
  Tensors rows;
  const std::int64_t longest = microbatch.max_count("tokens");
  for (const Sample& sample : microbatch.samples) {
    auto generator = Seed(99).child(input).child(sample.id).generator();
    if (input == "tokens" || input == "labels") {
      Tensor row = torch::randint(0, kVocabulary, {longest}, generator, torch::TensorOptions().dtype(torch::kInt64));
      const std::int64_t length = sample.count(input);
      row.slice(0, length).fill_(input == "tokens" ? 0 : modules::ignored_label);
      rows.push_back(row);
    } else if (sample.has(input)) {
      rows.push_back(torch::randn({input == "target" ? kTarget : kPixels}, generator, torch::TensorOptions()));
    }
  }
  return rows.empty() ? Tensor() : torch::stack(rows);
}

modules::StepBatch toy_batch(const std::vector<std::string>& microbatches, std::int64_t step) {
  modules::StepBatch batch;
  batch.step = step;
  std::int64_t id = 0;
  for (const std::string& text : microbatches) {
    Microbatch microbatch;
    microbatch.step = step;
    microbatch.index = static_cast<std::int32_t>(batch.microbatches.size());
    std::stringstream samples(text + ",");
    for (std::string kinds; std::getline(samples, kinds, ',');) {
      Sample sample = ToyDataset().describe(modules::Split::train, id++, 0);
      if (kinds.find('v') != std::string::npos) sample.counts["pixels"] = 1;
      if (kinds.find('a') != std::string::npos) sample.counts["audio"] = 1;
      if (kinds.find('t') != std::string::npos) sample.counts["target"] = 1;
      if (kinds.find('-') != std::string::npos) sample.counts["labels"] = 0;
      microbatch.samples.push_back(sample);
    }
    batch.microbatches.push_back(microbatch);
  }
  return batch;
}

Outcome reference_outcome(const modules::Model& model, const modules::StepBatch& batch, torch::Dtype dtype) {
  modules::PartOptions options;
  options.dtype = dtype;
  options.seed = Seed(7);
  modules::WholeModel whole(model, options);
  ToyDataset dataset;
  Outcome outcome;
  const auto counts = modules::step_counts(model, batch);
  for (const auto& microbatch : batch.microbatches)
    modules::add_to(outcome.sums, whole.train(microbatch, dataset, counts.scales));
  for (const auto& [name, tensor] : whole.parameters()) outcome.gradients[name] = tensor.grad();
  return outcome;
}

Outcome part_outcome(const modules::Model& model, const modules::StepBatch& batch, torch::Dtype dtype,
                     const std::vector<int>& cuts, bool one_lane, bool use_outline) {
  modules::PartOptions options;
  options.dtype = dtype;
  options.seed = Seed(7);
  ToyDataset dataset;
  const auto outline = modules::outline(model, options.seed);
  std::vector<std::unique_ptr<modules::ParameterStore>> stores;
  std::map<std::string, std::unique_ptr<modules::Part>> pools;
  std::vector<std::unique_ptr<modules::Part>> stages;
  auto make = [&](const modules::PartSpec& spec) {
    if (stores.empty() || !one_lane) stores.push_back(std::make_unique<modules::ParameterStore>());
    auto own = options;
    if (use_outline) own.frozen_sources = outline.frozen_sources(model, spec);
    return modules::make_part(model, spec, own, dataset, *stores.back());
  };
  const auto& llm = model.llm_node();
  std::vector<int> offsets = {0};
  offsets.insert(offsets.end(), cuts.begin(), cuts.end());
  offsets.push_back(static_cast<int>(llm.factories.size()));
  for (const auto& node : model.nodes())
    if (node.kind == modules::Model::Kind::encoder || node.kind == modules::Model::Kind::generator)
      pools[node.name] = make({node.name});
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) stages.push_back(make({"llm", offsets[s], offsets[s + 1]}));

  // All forwards, then all backwards: every microbatch is in flight at once.
  struct Flight {
    std::map<std::string, modules::Part::Forward> pools;
    std::vector<modules::Part::Forward> stages;
  };
  Outcome outcome;
  const auto counts = modules::step_counts(model, batch);
  std::vector<Flight> flights(batch.microbatches.size());
  auto collect = [&](modules::Part& part, Flight& flight) {
    std::vector<Tensors> inputs;
    for (const auto& source : part.sources()) {
      if (source == "llm")
        inputs.push_back(flight.stages.back().outputs);
      else
        inputs.push_back(flight.pools.count(source) ? flight.pools[source].outputs : Tensors());
    }
    return inputs;
  };
  for (std::size_t m = 0; m < flights.size(); ++m) {
    const auto& microbatch = batch.microbatches[m];
    Flight& flight = flights[m];
    auto run_pools = [&](modules::Model::Kind kind) {
      for (const auto& node : model.nodes()) {
        if (node.kind != kind || !model.present(node, microbatch)) continue;
        modules::Part& part = *pools[node.name];
        flight.pools[node.name] = part.forward(collect(part, flight), microbatch, counts.scales, true);
      }
    };
    run_pools(modules::Model::Kind::encoder);
    for (auto& stage : stages)
      flight.stages.push_back(stage->forward(collect(*stage, flight), microbatch, counts.scales, true));
    run_pools(modules::Model::Kind::generator);
    for (auto& [name, forward] : flight.pools) modules::add_to(outcome.sums, forward.losses);
    for (auto& forward : flight.stages) modules::add_to(outcome.sums, forward.losses);
  }
  for (std::size_t m = flights.size(); m-- > 0;) {
    Flight& flight = flights[m];
    std::map<std::string, Tensors> received;  // by source, summed over its readers
    auto take = [&](modules::Part& part, std::unique_ptr<modules::Part::Stash> stash, const Tensors& gradients) {
      auto inputs = part.backward(std::move(stash), gradients);
      ASSERT_EQ(inputs.size(), part.sources().size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        Tensors& sum = received[part.sources()[i]];
        sum.resize(std::max(sum.size(), inputs[i].size()));
        for (std::size_t k = 0; k < inputs[i].size(); ++k)
          if (inputs[i][k].defined()) sum[k] = sum[k].defined() ? sum[k] + inputs[i][k] : inputs[i][k];
      }
    };
    for (const auto& node : model.nodes())
      if (node.kind == modules::Model::Kind::generator && flight.pools.count(node.name))
        take(*pools[node.name], std::move(flight.pools[node.name].stash), {});
    for (std::size_t s = stages.size(); s-- > 0;) {
      Tensors gradients = std::move(received["llm"]);
      received.erase("llm");
      take(*stages[s], std::move(flight.stages[s].stash), gradients);
    }
    for (const auto& node : model.nodes())
      if (node.kind == modules::Model::Kind::encoder && flight.pools.count(node.name))
        take(*pools[node.name], std::move(flight.pools[node.name].stash), received[node.name]);
  }
  for (auto& store : stores)
    for (const auto& [name, tensor] : store->entries()) {
      Tensor& sum = outcome.gradients[name];
      if (tensor.grad().defined()) sum = sum.defined() ? sum + tensor.grad() : tensor.grad();
    }
  return outcome;
}

double difference(const Outcome& a, const Outcome& b) {
  double worst = 0, largest = 1e-300;
  EXPECT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, tensor] : a.gradients)
    if (tensor.defined()) largest = std::max(largest, tensor.abs().max().item<double>());
  for (const auto& [name, tensor] : a.gradients) {
    auto other = b.gradients.find(name);
    if (other == b.gradients.end()) {
      ADD_FAILURE() << name << " is missing";
      continue;
    }
    EXPECT_EQ(tensor.defined(), other->second.defined()) << name;
    if (!tensor.defined() || !other->second.defined()) continue;
    worst = std::max(worst, (tensor - other->second).abs().max().item<double>() / largest);
  }
  std::set<std::string> names;
  for (const auto* sums : {&a.sums, &b.sums})
    for (const auto& [name, sum] : *sums) names.insert(name);
  for (const auto& name : names) {
    const double x = a.sums.count(name) ? a.sums.at(name) : 0, y = b.sums.count(name) ? b.sums.at(name) : 0;
    worst = std::max(worst, std::abs(x - y) / std::max(1e-300, std::abs(x)));
  }
  return worst;
}

}  // namespace nestor::test
