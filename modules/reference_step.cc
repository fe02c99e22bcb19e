#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include <nestor/modules/build.h>
#include <nestor/modules/reference_step.h>

namespace nestor::modules {

/// Values by node, as a person would compute them by hand. Nothing here is shared with parts but the building.
class WholeModel::Impl {
 public:
  Impl(Model model, PartOptions options) : model_(std::move(model)), options_(std::move(options)) {
    model_.validate();
    std::vector<std::pair<std::string, Tensor>> all;
    for (const auto& node : model_.nodes()) {
      auto& layers = modules_.emplace_back();
      for (std::size_t i = 0; i < node.factories.size(); ++i) {
        layers.push_back(build_module(node, i, options_));
        for (auto& entry : full_parameters(*layers.back(), layer_name(node, i))) all.push_back(std::move(entry));
      }
    }
    for (const auto& [name, tensor] : all) {
      if (model_.canonical(name) != name) continue;
      parameters_.emplace_back(name, tensor);
      if (model_.frozen(name)) parameters_.back().second.requires_grad_(false);
    }
    for (auto& [name, tensor] : all) {
      const std::string canonical = model_.canonical(name);
      if (canonical == name) continue;
      auto owner = std::find_if(parameters_.begin(), parameters_.end(),
                                [&, &c = canonical](const auto& entry) { return entry.first == c; });
      if (owner == parameters_.end())
        throw Error("model.tie", "there is no parameter '" + canonical + "'", "see the model's outline for names");
      if (owner->second.sizes() != tensor.sizes())
        throw Error("model.tie", "'" + name + "' and '" + canonical + "' have different shapes", "tie equal ones");
      tensor.set_data(owner->second);
      tensor.requires_grad_(owner->second.requires_grad());
      ties_.emplace_back(tensor, owner->second);
    }
  }

  /// One microbatch's walk through the model; values are made when first asked for.
  struct Walk {
    const Microbatch& microbatch;
    std::function<Tensor(const std::string&)> raw;
    bool training = false, sampling = false;
    std::vector<LossTerm> terms;
    std::vector<std::optional<Tensors>> values;
  };

  Walk walk(const Microbatch& microbatch, std::function<Tensor(const std::string&)> raw) const {
    return {microbatch, std::move(raw), false, false, {}, std::vector<std::optional<Tensors>>(model_.nodes().size())};
  }

  Tensors value(std::size_t index, Walk& walk) {
    auto& cached = walk.values[index];
    if (!cached) cached = compute(index, walk);
    return *cached;
  }

  Tensors gather(const std::vector<Value>& inputs, Walk& walk) {
    Tensors result;
    for (Value input : inputs)
      for (Tensor& tensor : value(static_cast<std::size_t>(input.node), walk)) result.push_back(std::move(tensor));
    return result;
  }

  Tensors compute(std::size_t index, Walk& walk) {
    const auto& node = model_.nodes()[index];
    if (node.kind == Model::Kind::input) return {walk.raw(node.name)};
    if (node.kind == Model::Kind::encoder && !model_.present(node, walk.microbatch))
      return Tensors(static_cast<std::size_t>(node.outputs));
    Tensors current = gather(node.inputs, walk);
    Context context{walk.microbatch, step_seed(options_.seed, walk.microbatch.step), {}, walk.training, walk.sampling,
                    &walk.terms};
    for (std::size_t i = 0; i < modules_[index].size(); ++i) {
      const std::string name = layer_name(node, i);
      context.module = name;
      current = call_module(*modules_[index][i], current, context);
    }
    return current;
  }

  void compute_losses(Walk& walk) {
    const auto& nodes = model_.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].kind == Model::Kind::llm) value(i, walk);
      if (nodes[i].kind == Model::Kind::generator && model_.present(nodes[i], walk.microbatch))
        walk.terms.push_back({nodes[i].name, value(i, walk).at(0)});
    }
    for (const auto& loss : model_.losses()) {
      bool present = loss.loss.sum != nullptr;
      for (Value input : loss.inputs) {
        const auto& node = nodes[static_cast<std::size_t>(input.node)];
        present &= node.kind != Model::Kind::input || walk.microbatch.has(node.name);
      }
      if (!present) continue;
      Context context{walk.microbatch, step_seed(options_.seed, walk.microbatch.step), loss.name, walk.training, false,
                      nullptr};
      walk.terms.push_back({loss.name, loss.loss.sum(gather(loss.inputs, walk), context)});
    }
  }

  static LossSums sums(const Walk& walk) {
    LossSums result;
    for (const auto& term : walk.terms) result[term.name] += term.sum.item<double>();
    return result;
  }

  /// Tied modules each hold a leaf over the same memory: the gradient belongs to the one that is listed.
  void gather_tied_gradients() {
    torch::NoGradGuard no_grad;
    for (auto& [own, owner] : ties_) {
      if (!own.grad().defined()) continue;
      owner.mutable_grad() = owner.grad().defined() ? owner.grad() + own.grad() : own.grad();
      own.mutable_grad() = Tensor();
    }
  }

  Walk inference(const Microbatch& microbatch, const InputMap& inputs) {
    return walk(microbatch, [this, &inputs](const std::string& name) -> Tensor {
      auto found = inputs.find(name);
      if (found == inputs.end() || !found->second.defined()) return {};
      auto to = found->second.options().device(options_.device);
      return found->second.to(found->second.is_floating_point() ? to.dtype(options_.dtype) : to);
    });
  }

  std::size_t index_of(std::string_view name, Model::Kind kind) const {
    for (std::size_t i = 0; i < model_.nodes().size(); ++i)
      if (model_.nodes()[i].name == name && model_.nodes()[i].kind == kind) return i;
    throw Error(
        "model",
        "it has no " + std::string(kind == Model::Kind::head ? "head" : "generator") + " '" + std::string(name) + "'",
        "");
  }

  const Model model_;
  const PartOptions options_;
  std::vector<std::vector<std::shared_ptr<Module>>> modules_;  ///< by node, then layer
  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::vector<std::pair<Tensor, Tensor>> ties_;
};

WholeModel::WholeModel(Model model, PartOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(options))) {}
WholeModel::~WholeModel() = default;
WholeModel::WholeModel(WholeModel&&) noexcept = default;

const Model& WholeModel::model() const {
  return impl_->model_;
}
const std::vector<std::pair<std::string, Tensor>>& WholeModel::parameters() const {
  return impl_->parameters_;
}

LossSums WholeModel::train(const Microbatch& microbatch, const Dataset& dataset, const LossScales& scales) {
  torch::AutoGradMode grad_mode(true);
  RawInputs raw(dataset, microbatch, impl_->options_);
  auto walk = impl_->walk(microbatch, [&](const std::string& name) { return raw.get(name); });
  walk.training = true;
  impl_->compute_losses(walk);
  LossSums sums = Impl::sums(walk);
  Tensor total;
  for (const auto& term : walk.terms) {
    auto scale = scales.find(term.name);
    if (scale == scales.end())
      throw Error("model.loss." + term.name, "it is not declared", "declare it with Model::layer_loss");
    if (scale->second == 0) continue;
    Tensor part = term.sum * scale->second;
    total = total.defined() ? total + part : part;
  }
  walk.terms.clear();
  walk.values.clear();
  if (total.defined() && total.requires_grad()) total.backward();
  impl_->gather_tied_gradients();
  return sums;
}

LossSums WholeModel::evaluate(const Microbatch& microbatch, const Dataset& dataset) {
  torch::NoGradGuard no_grad;
  RawInputs raw(dataset, microbatch, impl_->options_);
  auto walk = impl_->walk(microbatch, [&](const std::string& name) { return raw.get(name); });
  impl_->compute_losses(walk);
  return Impl::sums(walk);
}

Tensors WholeModel::hidden(const Microbatch& microbatch, const InputMap& inputs) {
  torch::NoGradGuard no_grad;
  auto walk = impl_->inference(microbatch, inputs);
  return impl_->value(static_cast<std::size_t>(&model().llm_node() - model().nodes().data()), walk);
}

Tensors WholeModel::head(std::string_view name, const Tensors& hidden, const Microbatch& microbatch,
                         const InputMap& inputs) {
  torch::NoGradGuard no_grad;
  auto walk = impl_->inference(microbatch, inputs);
  walk.values[static_cast<std::size_t>(&model().llm_node() - model().nodes().data())] = hidden;
  return impl_->value(impl_->index_of(name, Model::Kind::head), walk);
}

Tensors WholeModel::sample(std::string_view generator, const Microbatch& microbatch, const InputMap& inputs) {
  torch::NoGradGuard no_grad;
  auto walk = impl_->inference(microbatch, inputs);
  walk.sampling = true;
  return impl_->value(impl_->index_of(generator, Model::Kind::generator), walk);
}

UpdateDecision decide_update(double square_sum, double clip) {
  UpdateDecision decision;
  decision.norm = std::sqrt(square_sum);
  decision.skip = !std::isfinite(decision.norm);
  if (!decision.skip && clip > 0) decision.scale = std::min(1.0, clip / (decision.norm + 1e-6));
  return decision;
}

ReferenceStep reference_step(WholeModel& model, Optimizer& optimizer, const StepBatch& batch, const Dataset& dataset) {
  optimizer.zero_gradients();
  ReferenceStep result;
  result.counts = step_counts(model.model(), batch);
  LossSums sums;
  for (const auto& microbatch : batch.microbatches)
    add_to(sums, model.train(microbatch, dataset, result.counts.scales));
  result.losses = loss_means(model.model(), result.counts, sums);
  const UpdateDecision decision = decide_update(optimizer.gradient_square_sum(), optimizer.options().clip);
  result.grad_norm = decision.norm;
  result.skipped = decision.skip;
  if (!decision.skip) optimizer.update(batch.step, decision.scale);
  return result;
}

LossMeans reference_evaluate(WholeModel& model, const StepBatch& batch, const Dataset& dataset) {
  LossSums sums;
  for (const auto& microbatch : batch.microbatches) add_to(sums, model.evaluate(microbatch, dataset));
  return loss_means(model.model(), step_counts(model.model(), batch), sums);
}

}  // namespace nestor::modules
