#include <algorithm>

#include <nestor/modules/build.h>
#include <nestor/modules/outline.h>
#include <nestor/modules/part_impl.h>

namespace nestor::modules {

bool ModuleOutline::trainable() const {
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) { return parameter.trainable; });
}

std::vector<const ModuleOutline*> Outline::of(std::string_view node) const {
  std::vector<const ModuleOutline*> result;
  for (const auto& module : modules)
    if (module.node == node) result.push_back(&module);
  return result;
}

bool Outline::trainable(std::string_view node) const {
  auto own = of(node);
  return std::any_of(own.begin(), own.end(), [](const ModuleOutline* module) { return module->trainable(); });
}

std::vector<std::string> Outline::frozen_sources(const Model& model, const PartSpec& spec) const {
  const auto& llm = model.llm_node();
  auto encoders_trainable = [&] {
    return std::any_of(llm.inputs.begin(), llm.inputs.end(), [&](Value value) {
      return trainable(model.nodes()[static_cast<std::size_t>(value.node)].name);
    });
  };
  const auto layers = of(llm.name);
  // What a piece reads of the LLM comes from all layers before it: for a generator, all of them.
  const auto before = spec.node == llm.name ? static_cast<std::size_t>(spec.first_layer) : layers.size();
  std::vector<std::string> result;
  for (const auto& source : source_names(model, spec)) {
    bool needs =
        source == llm.name
            ? encoders_trainable() || std::any_of(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(before),
                                                  [](const auto* l) { return l->trainable(); })
            : trainable(source);
    if (!needs) result.push_back(source);
  }
  return result;
}

std::map<std::string, std::vector<std::string>> Outline::tied() const {
  std::map<std::string, std::vector<std::string>> holders;
  for (const auto& module : modules)
    for (const auto& parameter : module.parameters) {
      auto& names = holders[parameter.canonical];
      if (names.empty() || names.back() != module.name) names.push_back(module.name);
    }
  std::erase_if(holders, [](const auto& entry) { return entry.second.size() < 2; });
  return holders;
}

Outline outline(const Model& model, Seed run, std::span<const Microbatch> microbatches) {
  model.validate();
  PartOptions options;
  options.seed = run;
  Outline result;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& node : model.nodes()) {
    for (std::size_t layer = 0; layer < node.factories.size(); ++layer) {
      ModuleOutline entry{layer_name(node, layer), node.name, static_cast<std::int32_t>(layer), {}, {}};
      auto module = build_module(node, layer, options);
      for (const auto& [name, tensor] : full_parameters(*module, entry.name)) {
        std::string canonical = model.canonical(name);
        entry.parameters.push_back(
            {name, canonical, tensor.sizes().vec(), tensor.requires_grad() && !model.frozen(canonical)});
        shapes[name] = tensor.sizes().vec();
      }
      for (const auto& microbatch : microbatches)
        entry.forward_flops.push_back(model.present(node, microbatch) ? module->forward_flops(microbatch) : 0);
      result.modules.push_back(std::move(entry));
    }
  }
  for (const auto& [parameter, with] : model.ties()) {
    for (const auto& name : {parameter, with})
      if (!shapes.count(name))
        throw Error("model.tie", "there is no parameter '" + name + "'",
                    "names look like " + (shapes.empty() ? "text.weight" : shapes.begin()->first));
    if (shapes[parameter] != shapes[with])
      throw Error("model.tie", "'" + parameter + "' and '" + with + "' have different shapes", "tie equal ones");
  }
  for (const auto& pattern : model.freezes()) {
    bool used = false;
    std::string hint = "names look like " + (shapes.empty() ? "vision.weight" : shapes.begin()->first);
    for (const auto& module : result.modules) {
      for (const auto& parameter : module.parameters) {
        used |= glob_match(pattern, parameter.canonical);
        if (glob_match(pattern, parameter.name))
          hint = "'" + parameter.name + "' is tied: freeze '" + parameter.canonical + "'";
      }
    }
    if (!used) throw Error("model.freeze", "'" + pattern + "' matches no parameter", hint);
  }
  return result;
}

}  // namespace nestor::modules
