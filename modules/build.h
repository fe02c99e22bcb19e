#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nestor/modules/part.h>

namespace nestor::modules {

// Inside modules/: how a factory becomes a module with its weights. Parts and the reference share this and nothing
// else, so that one may check the other.

/// Layer `layer` of `node`, from its own seed; floating parameters and buffers cast to the options' dtype and device.
std::shared_ptr<Module> build_module(const Model::Node& node, std::size_t layer, const PartOptions& options);

/// Its parameters by full name ("llm.layers.0.embedding.weight"), each tensor once.
std::vector<std::pair<std::string, Tensor>> full_parameters(const Module& module, const std::string& name);

/// The module that declares this parameter ("llm.layers.0" for the one above), and its layer. Throws Error.
std::pair<const Model::Node*, std::size_t> owner_of(const Model& model, std::string_view parameter);

/// A freshly drawn value of a parameter, by building its module for it. Throws Error where there is none.
Tensor draw_parameter(const Model& model, const std::string& parameter, const PartOptions& options);

/// Reads a microbatch's raw inputs, each at most once; floating ones in the options' dtype, on its device.
class RawInputs {
 public:
  RawInputs(const Dataset& dataset, const Microbatch& microbatch, const PartOptions& options)
      : dataset_(dataset), microbatch_(microbatch), options_(options) {}
  /// Undefined where the microbatch lacks it. Throws Error.
  Tensor get(const std::string& input);

 private:
  const Dataset& dataset_;
  const Microbatch& microbatch_;
  const PartOptions& options_;
  std::vector<std::pair<std::string, Tensor>> read_;
};

/// Calls `module.forward`, turning what it throws into an Error that names the module and the microbatch.
Tensors call_module(Module& module, const Tensors& inputs, const Context& context);

/// First line of an exception's text, without LibTorch's backtrace.
std::string plain_what(const std::exception& error);
/// "microbatch 3 of step 7"
std::string describe(const Microbatch& microbatch);

}  // namespace nestor::modules
