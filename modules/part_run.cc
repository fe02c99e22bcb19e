#include <torch/csrc/autograd/engine.h>

#include <nestor/modules/part_impl.h>

namespace nestor::modules {

Tensors PartImpl::arguments(const Model::Node& node, const std::vector<Tensors>& inputs, RawInputs& raw) const {
  Tensors result;
  for (Value value : node.inputs) {
    const auto& input = model_.nodes()[static_cast<std::size_t>(value.node)];
    if (input.kind == Model::Kind::input) {
      result.push_back(raw.get(input.name));
      continue;
    }
    auto source = std::find(sources_.begin(), sources_.end(), input.name) - sources_.begin();
    const Tensors& tensors = inputs[static_cast<std::size_t>(source)];
    if (input.kind == Model::Kind::encoder && tensors.empty()) {
      result.resize(result.size() + static_cast<std::size_t>(input.outputs));  // absent: places are kept
      continue;
    }
    if (input.kind == Model::Kind::encoder && tensors.size() != static_cast<std::size_t>(input.outputs))
      throw Error(name_, "'" + input.name + "' gave " + std::to_string(tensors.size()) + " outputs",
                  "it is declared with " + std::to_string(input.outputs));
    result.insert(result.end(), tensors.begin(), tensors.end());
  }
  return result;
}

PartImpl::Result PartImpl::run(const std::vector<Tensors>& inputs, const Microbatch& microbatch, bool training) {
  Result result;
  RawInputs raw(dataset_, microbatch, options_);
  Context context{microbatch, step_seed(options_.seed, microbatch.step), {}, training, false, &result.losses};
  Tensors values = first_ ? arguments(*node_, inputs, raw) : inputs.at(0);
  for (Piece& layer : layers_) {
    context.module = layer.name;
    values = call_module(*layer.module, values, context);
  }
  if (node_->kind == Model::Kind::encoder && values.size() != static_cast<std::size_t>(node_->outputs))
    throw Error(name_, "it returned " + std::to_string(values.size()) + " tensors",
                "it is declared with " + std::to_string(node_->outputs) + " outputs");
  if (node_->kind == Model::Kind::generator) {
    if (values.size() != 1)
      throw Error(name_, "it returned " + std::to_string(values.size()) + " tensors",
                  "a generator returns its loss sum");
    result.losses.push_back({node_->name, values[0]});
    values.clear();
  }
  if (last_) run_heads(values, raw, context, result.losses);
  for (const LossTerm& term : result.losses) {
    if (term.sum.defined() && term.sum.numel() == 1 && term.sum.is_floating_point()) continue;
    throw Error(name_, "loss '" + term.name + "' is not a scalar in " + describe(microbatch), "a loss is a sum");
  }
  result.outputs = std::move(values);
  return result;
}

void PartImpl::run_heads(const Tensors& hidden, RawInputs& raw, Context& context, std::vector<LossTerm>& losses) {
  std::vector<std::pair<const Model::Node*, Tensors>> done;  // heads that ran
  auto head_outputs = [&](const Model::Node& head) -> const Tensors& {
    auto found = std::find_if(done.begin(), done.end(), [&](const auto& d) { return d.first == &head; });
    if (found != done.end()) return found->second;
    Tensors arguments;
    for (Value value : head.inputs) {
      const auto& input = model_.nodes()[static_cast<std::size_t>(value.node)];
      if (input.kind == Model::Kind::input)
        arguments.push_back(raw.get(input.name));
      else
        arguments.insert(arguments.end(), hidden.begin(), hidden.end());
    }
    auto piece = std::find_if(heads_.begin(), heads_.end(), [&](const Piece& p) { return p.node == &head; });
    context.module = piece->name;
    return done.emplace_back(&head, call_module(*piece->module, arguments, context)).second;
  };
  for (const auto& loss : model_.losses()) {
    if (!loss.loss.sum) continue;
    auto node_of = [&](Value value) -> const Model::Node& {
      return model_.nodes()[static_cast<std::size_t>(value.node)];
    };
    bool present = std::all_of(loss.inputs.begin(), loss.inputs.end(), [&](Value value) {
      return node_of(value).kind != Model::Kind::input || context.microbatch.has(node_of(value).name);
    });
    if (!present) continue;
    Tensors arguments;
    for (Value value : loss.inputs) {
      const auto& input = node_of(value);
      if (input.kind == Model::Kind::input) {
        arguments.push_back(raw.get(input.name));
      } else {
        const Tensors& outputs = head_outputs(input);
        arguments.insert(arguments.end(), outputs.begin(), outputs.end());
      }
    }
    context.module = loss.name;
    try {
      losses.push_back({loss.name, loss.loss.sum(arguments, context)});
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error("loss." + loss.name, describe(context.microbatch) + ": " + plain_what(error), "");
    }
  }
}

std::vector<Tensors> PartImpl::make_leaves(const std::vector<Tensors>& inputs, bool gradients) const {
  if (inputs.size() != sources_.size())
    throw Error(name_, std::to_string(inputs.size()) + " inputs for " + std::to_string(sources_.size()) + " sources",
                "one entry per source, empty where it is absent");
  std::vector<Tensors> leaves(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const Tensor& tensor : inputs[i]) {
      Tensor leaf = tensor.defined() ? tensor.detach() : Tensor();
      if (gradients && leaf.defined() && leaf.is_floating_point() && needs_gradient(i)) leaf.requires_grad_();
      leaves[i].push_back(std::move(leaf));
    }
  }
  return leaves;
}

Part::Forward PartImpl::forward(const std::vector<Tensors>& inputs, const Microbatch& microbatch,
                                const LossScales& scales, bool needs_backward) {
  std::vector<Tensors> leaves = make_leaves(inputs, needs_backward);
  bool wanted = needs_backward && trainable_;
  for (const Tensors& tensors : leaves)
    for (const Tensor& leaf : tensors) wanted |= needs_backward && leaf.defined() && leaf.requires_grad();

  torch::AutoGradMode grad_mode(wanted);
  Result result = run(leaves, microbatch, true);

  auto root_of = [](const Tensor& tensor) {
    return GraphStash::Root{torch::autograd::impl::gradient_edge(tensor), tensor.sizes().vec(), tensor.options()};
  };
  Forward forward;
  auto stash = std::make_unique<GraphStash>();
  bool any = false;
  for (const Tensor& output : result.outputs) {
    const bool rooted = output.defined() && output.requires_grad();
    any |= rooted;
    stash->outputs.push_back(rooted ? root_of(output) : GraphStash::Root{});
    forward.outputs.push_back(output.defined() ? output.detach() : Tensor());
  }
  for (const LossTerm& term : result.losses) {
    forward.losses[term.name] += term.sum.item<double>();
    auto scale = scales.find(term.name);
    if (scale == scales.end())
      throw Error(name_, "loss '" + term.name + "' has no scale", "declare it with Model::layer_loss");
    if (scale->second == 0 || !term.sum.requires_grad()) continue;  // a count of 0 is a loss of 0
    any = true;
    stash->losses.push_back({root_of(term.sum), scale->second});
  }
  if (any) {
    stash->leaves = std::move(leaves);
    stash->microbatch = describe(microbatch);
    forward.stash = std::move(stash);
  }
  return forward;
}

Part::Forward PartImpl::evaluate(const std::vector<Tensors>& inputs, const Microbatch& microbatch) {
  torch::NoGradGuard no_grad;
  Result result = run(make_leaves(inputs, false), microbatch, false);
  Forward forward;
  for (const Tensor& output : result.outputs) forward.outputs.push_back(output.defined() ? output.detach() : Tensor());
  for (const LossTerm& term : result.losses) forward.losses[term.name] += term.sum.item<double>();
  return forward;
}

std::vector<Tensors> PartImpl::backward(std::unique_ptr<Stash> kept, const Tensors& output_gradients) {
  if (!kept) return std::vector<Tensors>(sources_.size());
  std::unique_ptr<GraphStash> stash(static_cast<GraphStash*>(kept.release()));
  if (!output_gradients.empty() && output_gradients.size() != stash->outputs.size())
    throw Error(name_,
                std::to_string(output_gradients.size()) + " gradients for " + std::to_string(stash->outputs.size()) +
                    " outputs in " + stash->microbatch,
                "");
  // One traversal for all roots: two outputs that share a part of the graph visit it once.
  torch::autograd::edge_list edges;
  torch::autograd::variable_list gradients;
  for (std::size_t i = 0; i < output_gradients.size(); ++i) {
    const auto& root = stash->outputs[i];
    const Tensor& gradient = output_gradients[i];
    if (!gradient.defined() || !root.edge.is_valid()) continue;
    if (gradient.sizes() != root.shape || gradient.scalar_type() != root.options.dtype().toScalarType())
      throw Error(name_, "the gradient of output " + std::to_string(i) + " does not fit it in " + stash->microbatch,
                  "it has another shape or dtype");
    edges.push_back(root.edge);
    gradients.push_back(gradient);
  }
  for (const auto& loss : stash->losses) {
    edges.push_back(loss.root.edge);
    gradients.push_back(torch::full(loss.root.shape, loss.scale, loss.root.options));
  }
  std::vector<Tensors> leaves = std::move(stash->leaves);
  const std::string microbatch = std::move(stash->microbatch);
  stash.reset();  // the edges hold what is needed
  if (!edges.empty()) {
    try {
      torch::autograd::Engine::get_default_engine().execute(edges, gradients, false, false, true);
    } catch (const std::exception& error) {
      throw Error(name_, "backward of " + microbatch + ": " + plain_what(error), "");
    }
  }
  torch::NoGradGuard no_grad;
  for (auto& [own, shared] : aliases_) {
    if (!own.grad().defined()) continue;
    if (shared.grad().defined())
      shared.mutable_grad().add_(own.grad());
    else
      shared.mutable_grad() = own.grad();
    own.mutable_grad().reset();
  }
  std::vector<Tensors> result(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i)
    for (Tensor& leaf : leaves[i]) result[i].push_back(leaf.defined() ? leaf.grad() : Tensor());
  return result;
}

double PartImpl::forward_flops(const Microbatch& microbatch) const {
  if (!model_.present(*node_, microbatch)) return 0;
  double flops = 0;
  for (const auto& layer : layers_) flops += layer.module->forward_flops(microbatch);
  for (const auto& head : heads_) flops += head.module->forward_flops(microbatch);
  return flops;
}

}  // namespace nestor::modules
