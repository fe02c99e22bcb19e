#include <algorithm>

#include <nestor/modules/build.h>

namespace nestor::modules {

std::shared_ptr<Module> build_module(const Model::Node& node, std::size_t layer, const PartOptions& options) {
  const std::string name = layer_name(node, layer);
  torch::NoGradGuard no_grad;
  auto module = node.factories.at(layer)(weight_seed(options.seed, name));
  if (!module) throw Error(name, "its factory returned no module", "return a Module or a shared_ptr to one");
  auto cast = [&](Tensor tensor) {
    // The values are drawn in float32 whatever the dtype, so that every dtype starts from the same numbers; set_data
    // keeps the handles that the module has of its parameters.
    auto to = tensor.options().device(options.device);
    if (tensor.is_floating_point()) to = to.dtype(options.dtype);
    tensor.set_data(tensor.to(to));
  };
  for (auto& parameter : module->parameters()) cast(parameter);
  for (auto& buffer : module->buffers()) cast(buffer);
  return module;
}

std::vector<std::pair<std::string, Tensor>> full_parameters(const Module& module, const std::string& name) {
  std::vector<std::pair<std::string, Tensor>> result;
  for (const auto& entry : module.named_parameters()) {
    bool seen =
        std::any_of(result.begin(), result.end(), [&](const auto& r) { return r.second.is_same(entry.value()); });
    if (!seen) result.emplace_back(name + "." + entry.key(), entry.value());
  }
  return result;
}

std::pair<const Model::Node*, std::size_t> owner_of(const Model& model, std::string_view parameter) {
  for (const auto& node : model.nodes()) {
    for (std::size_t layer = 0; layer < node.factories.size(); ++layer) {
      std::string prefix = layer_name(node, layer) + ".";
      if (parameter.substr(0, prefix.size()) == prefix) return {&node, layer};
    }
  }
  throw Error("model.tie", "no module declares '" + std::string(parameter) + "'",
              "names look like llm.layers.0.embedding.weight");
}

Tensor draw_parameter(const Model& model, const std::string& parameter, const PartOptions& options) {
  auto [node, layer] = owner_of(model, parameter);
  const std::string name = layer_name(*node, layer);
  auto module = build_module(*node, layer, options);
  for (auto& [full, tensor] : full_parameters(*module, name))
    if (full == parameter) return tensor;
  throw Error("model.tie", "'" + name + "' has no parameter '" + parameter + "'", "see the model's outline for names");
}

Tensor RawInputs::get(const std::string& input) {
  auto found = std::find_if(read_.begin(), read_.end(), [&](const auto& r) { return r.first == input; });
  if (found != read_.end()) return found->second;
  Tensor tensor;
  if (microbatch_.has(input)) {
    tensor = dataset_.read(input, microbatch_);
    if (!tensor.defined())
      throw Error("input." + input, "the dataset returned nothing for " + describe(microbatch_),
                  "its descriptors say that it has it");
    auto to = tensor.options().device(options_.device);
    if (tensor.is_floating_point()) to = to.dtype(options_.dtype);
    tensor = tensor.to(to);
  }
  read_.emplace_back(input, tensor);
  return tensor;
}

Tensors call_module(Module& module, const Tensors& inputs, const Context& context) {
  try {
    return module.forward(inputs, context);
  } catch (const Error&) {
    throw;  // has its place already
  } catch (const std::exception& error) {
    throw Error(std::string(context.module), "forward of " + describe(context.microbatch) + ": " + plain_what(error),
                "");
  }
}

std::string plain_what(const std::exception& error) {
  auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

std::string describe(const Microbatch& microbatch) {
  return "microbatch " + std::to_string(microbatch.index) + " of step " + std::to_string(microbatch.step);
}

}  // namespace nestor::modules
