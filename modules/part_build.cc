#include <nestor/modules/part_impl.h>

namespace nestor::modules {
namespace {

bool has_first(const Model::Node& node, const PartSpec& spec) {
  return node.kind != Model::Kind::llm || spec.first_layer == 0;
}
bool has_last(const Model::Node& node, const PartSpec& spec) {
  return node.kind == Model::Kind::llm && spec.last_layer == static_cast<std::int32_t>(node.factories.size());
}
std::string part_name(const Model::Node& node, const PartSpec& spec) {
  if (node.kind != Model::Kind::llm) return node.name;
  std::string name = layer_name(node, static_cast<std::size_t>(spec.first_layer));
  if (spec.last_layer > spec.first_layer + 1) name.append("-").append(std::to_string(spec.last_layer - 1));
  return name;
}

}  // namespace

PartImpl::PartImpl(const Model& model, const PartSpec& spec, const PartOptions& options, const Dataset& dataset,
                   ParameterStore& store)
    : model_(model),
      node_(model_.find(spec.node)),
      options_(options),
      dataset_(dataset),
      first_(has_first(*node_, spec)),
      last_(has_last(*node_, spec)),
      name_(part_name(*node_, spec)),
      sources_(source_names(model_, spec)) {
  for (const auto& source : sources_)
    source_gradients_.push_back(std::find(options.frozen_sources.begin(), options.frozen_sources.end(), source) ==
                                options.frozen_sources.end());
  const bool llm = node_->kind == Model::Kind::llm;
  const auto first = static_cast<std::size_t>(llm ? spec.first_layer : 0);
  const auto last = static_cast<std::size_t>(llm ? spec.last_layer : 1);
  for (std::size_t layer = first; layer < last; ++layer)
    layers_.push_back({layer_name(*node_, layer), build_module(*node_, layer, options_), node_});
  if (last_)
    for (const auto& node : model_.nodes())
      if (node.kind == Model::Kind::head) heads_.push_back({node.name, build_module(node, 0, options_), &node});
  for (auto& layer : layers_) adopt(layer, store);
  for (auto& head : heads_) adopt(head, store);
}

void PartImpl::adopt(Piece& piece, ParameterStore& store) {
  for (auto& [name, own] : full_parameters(*piece.module, piece.name)) {
    const std::string canonical = model_.canonical(name);
    Tensor shared = store.find(canonical);
    if (!shared.defined()) {
      shared = store.share(canonical, name == canonical ? own : draw_parameter(model_, canonical, options_));
    }
    const bool trainable = shared.requires_grad() && !model_.frozen(canonical);
    shared.requires_grad_(trainable);
    if (!shared.is_same(own)) {
      if (shared.sizes() != own.sizes())
        throw Error("model.tie", "'" + name + "' and '" + canonical + "' have different shapes", "tie equal ones");
      // A module holds handles of its own leaf, so the leaf stays and takes the shared memory; its gradient is moved
      // over after each backward.
      own.set_data(shared);
      own.requires_grad_(trainable);
      if (trainable) aliases_.emplace_back(own, shared);
    }
    trainable_ |= trainable;
    auto listed = std::find_if(parameters_.begin(), parameters_.end(),
                               [&, &c = canonical](const auto& entry) { return entry.first == c; });
    if (listed == parameters_.end()) parameters_.emplace_back(canonical, shared);
  }
}

}  // namespace nestor::modules
