#include <nestor/modules/part.h>
#include <nestor/modules/part_impl.h>

namespace nestor::modules {

std::vector<std::string> source_names(const Model& model, const PartSpec& spec) {
  const Model::Node* node = model.find(spec.node);
  if (!node) throw Error("part", "the model has no module '" + spec.node + "'", "");
  if (node->kind == Model::Kind::llm && spec.first_layer > 0) return {node->name};
  std::vector<std::string> names;
  for (Value value : node->inputs) {
    const auto& input = model.nodes()[static_cast<std::size_t>(value.node)];
    if (input.kind != Model::Kind::input && std::find(names.begin(), names.end(), input.name) == names.end())
      names.push_back(input.name);
  }
  return names;
}

std::unique_ptr<Part> make_part(const Model& model, const PartSpec& spec, const PartOptions& options,
                                const Dataset& dataset, ParameterStore& store) {
  const Model::Node* node = model.find(spec.node);
  if (!node || node->kind == Model::Kind::input || node->kind == Model::Kind::head)
    throw Error("part", "'" + spec.node + "' is no encoder, LLM or generator of the model", "");
  if (node->kind == Model::Kind::llm && (spec.first_layer < 0 || spec.last_layer <= spec.first_layer ||
                                         spec.last_layer > static_cast<std::int32_t>(node->factories.size())))
    throw Error("part." + spec.node,
                "layers " + std::to_string(spec.first_layer) + " to " + std::to_string(spec.last_layer) + " of " +
                    std::to_string(node->factories.size()),
                "an offset of the cut is wrong");
  return std::make_unique<PartImpl>(model, spec, options, dataset, store);
}

}  // namespace nestor::modules
