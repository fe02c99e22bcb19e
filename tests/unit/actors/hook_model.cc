#include "hook_model.h"

#include <nestor/modules/data/synthetic.h>
#include <nestor/modules/modules.h>

namespace nestor::test {
namespace {

constexpr std::int64_t kWidth = 6, kVocabulary = 24, kImage = 4;

class Hooked : public modules::Module {
 public:
  Hooked(std::shared_ptr<Hooks> hooks, std::vector<std::int64_t> shape, const Seed& seed) : hooks_(std::move(hooks)) {
    hooks_->at({"make", 0, 0, false});
    auto generator = seed.generator();
    weight_ = register_parameter("weight", torch::randn(shape, generator) * 0.3);
  }

 protected:
  Tensor hook(Tensor x, const Context& context) const {
    HookPoint point{std::string(context.module), context.microbatch.step, context.microbatch.index, false};
    const double factor = hooks_->at(point);
    if (factor != 1) x = x * factor;
    if (x.requires_grad()) {
      point.backward = true;
      x.register_hook([hooks = hooks_, point](Tensor gradient) {
        const double factor = hooks->at(point);
        return factor == 1 ? gradient : gradient * factor;
      });
    }
    return x;
  }
  Tensor weight_;

 private:
  std::shared_ptr<Hooks> hooks_;
};

class Embedding : public Hooked {
 public:
  Embedding(std::shared_ptr<Hooks> hooks, const Seed& seed) : Hooked(std::move(hooks), {kVocabulary, kWidth}, seed) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    Tensor x = torch::embedding(weight_, inputs.at(0));
    if (inputs.at(1).defined()) x = x + inputs[1].mean(0);  // all pictures to all texts: enough for a gradient
    return {hook(x, context)};
  }
};

class Layer : public Hooked {
 public:
  Layer(std::shared_ptr<Hooks> hooks, const Seed& seed) : Hooked(std::move(hooks), {kWidth, kWidth}, seed) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {hook(inputs.at(0) + torch::tanh(inputs[0].matmul(weight_)), context)};
  }
};

class Head : public Hooked {
 public:
  Head(std::shared_ptr<Hooks> hooks, const Seed& seed) : Hooked(std::move(hooks), {kWidth, kVocabulary}, seed) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {hook(inputs.at(0).matmul(weight_), context)};
  }
};

class Vision : public Hooked {
 public:
  Vision(std::shared_ptr<Hooks> hooks, const Seed& seed)
      : Hooked(std::move(hooks), {3 * kImage * kImage, kWidth}, seed) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {hook(torch::tanh(inputs.at(0).flatten(1).matmul(weight_)), context)};
  }
};

class Image : public Hooked {
 public:
  Image(std::shared_ptr<Hooks> hooks, const Seed& seed)
      : Hooked(std::move(hooks), {kWidth, 3 * kImage * kImage}, seed) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    const Tensor drawn = inputs.at(0).mean(std::vector<std::int64_t>{0, 1}).matmul(weight_);
    return {hook((drawn - inputs.at(1).flatten(1)).square().sum(), context)};
  }
};

}  // namespace

actors::JobSpec hook_job(std::shared_ptr<Hooks> hooks) {
  modules::Model model;
  const auto pixels = model.input("pixels"), tokens = model.input("tokens"), labels = model.input("labels"),
             target = model.input("target");
  auto make = [hooks]<class M>(M*) { return [hooks](Seed seed) { return std::make_shared<M>(hooks, seed); }; };
  const auto seen = model.encoder("vision", {pixels}, make(static_cast<Vision*>(nullptr)));
  std::vector<ModuleFactory> layers{modules::make_factory(make(static_cast<Embedding*>(nullptr)))};
  for (int i = 0; i < 4; ++i) layers.push_back(modules::make_factory(make(static_cast<Layer*>(nullptr))));
  const auto hidden = model.llm("llm", {tokens, seen}, layers);
  const auto logits = model.head("text", {hidden}, make(static_cast<Head*>(nullptr)));
  model.loss("text", {logits, labels}, token_cross_entropy);
  model.generator("image", {hidden, target}, make(static_cast<Image*>(nullptr)), modules::count_of("target"));

  modules::SyntheticOptions data;
  data.samples = 32;
  data.held_out = 6;
  data.vocabulary = kVocabulary;
  data.image_size = kImage;
  data.images = {{"pixels", 0.6, 0, 0}, {"target", 0.6, 0, 0}};
  actors::JobSpec spec;
  spec.model = std::move(model);
  spec.dataset = std::make_shared<modules::SyntheticDataset>(data);
  spec.schedule.stages = 2;
  spec.schedule.microbatches = 3;
  spec.schedule.microbatch_size = 2;
  spec.dtype = torch::kFloat64;
  spec.optimizer.lr = 1e-2;
  spec.optimizer.epsilon = 1e-3;
  spec.step_deadline = std::chrono::seconds(30);
  return spec;
}

bool equal(const std::map<std::string, torch::Tensor>& a, const std::map<std::string, torch::Tensor>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && torch::equal(x.second, y.second);
         });
}

double largest(const std::map<std::string, torch::Tensor>& tensors) {
  double largest = 0;
  for (const auto& [name, tensor] : tensors) largest = std::max(largest, tensor.abs().max().item<double>());
  return largest;
}

}  // namespace nestor::test
