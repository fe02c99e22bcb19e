#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/modules/error.h>
#include <nestor/modules/module.h>

namespace nestor::modules {

/// A value that flows between modules: an input or a module's outputs. Only names; belongs to its model.
struct Value {
  std::int32_t node = -1;
};

/// (outputs..., labels...) → scalar sum over the microbatch, to be divided by the step's global count.
using LossFunction = std::function<Tensor(const Tensors&, const Context&)>;
/// A sample's share of a loss's global count, from its descriptor alone.
using CountFunction = std::function<std::int64_t(const Sample&)>;

struct Loss {
  LossFunction sum;
  CountFunction count;
};

/// What a user declares: modules with inputs and outputs, nothing about stages, ranks or microbatches. Copyable; holds
/// factories, no parameters. Node order is declaration order.
class Model {
 public:
  enum class Kind : std::uint8_t { input, encoder, llm, head, generator };
  struct Node {
    Kind kind;
    std::string name;
    std::vector<Value> inputs;
    std::vector<ModuleFactory> factories;  ///< one, or the LLM's layers in order
    CountFunction count;                   ///< generators: of their loss
    double weight = 1.0;                   ///< generators: of their loss in the total
    std::int32_t outputs = 1;              ///< encoders: tensors returned; as many places are kept where it is absent
  };
  struct LossNode {
    std::string name;
    std::vector<Value> inputs;  ///< head outputs and inputs; empty for a layer loss
    Loss loss;                  ///< a layer loss has no `sum`
    double weight = 1.0;
  };

  /// A raw input that the dataset reads; may be absent in a sample.
  Value input(std::string name);
  /// Reads raw inputs; absent in a microbatch that lacks one of them. A consumer sees its `outputs` tensors in a row,
  /// undefined where it is absent.
  template <class F>
  Value encoder(std::string name, std::vector<Value> inputs, F factory, std::int32_t outputs = 1) {
    return add(
        {Kind::encoder, std::move(name), std::move(inputs), {make_factory(std::move(factory))}, {}, 1.0, outputs});
  }
  /// The first layer gets `inputs` (raw inputs and encoders' outputs), every other the outputs of the one before it.
  Value llm(std::string name, std::vector<Value> inputs, std::vector<ModuleFactory> layers);
  /// Reads the LLM's outputs and raw inputs; runs on the LLM's last stage where a loss of the microbatch needs it.
  template <class F>
  Value head(std::string name, std::vector<Value> inputs, F factory) {
    return add({Kind::head, std::move(name), std::move(inputs), {make_factory(std::move(factory))}, {}, 1.0});
  }
  /// Over head outputs and raw inputs; skipped (0) in a microbatch that lacks one of the inputs.
  void loss(std::string name, std::vector<Value> inputs, Loss loss, double weight = 1.0);
  /// Declares a loss that layers add to through Context::add_loss.
  void layer_loss(std::string name, CountFunction count, double weight);
  /// The module returns {loss sum}; {output} where Context::sampling. Reads the LLM, encoders, raw inputs; absent in a
  /// microbatch that lacks one of its raw inputs.
  template <class F>
  Value generator(std::string name, std::vector<Value> inputs, F factory, CountFunction count, double weight = 1.0) {
    return add({Kind::generator,
                std::move(name),
                std::move(inputs),
                {make_factory(std::move(factory))},
                std::move(count),
                weight});
  }
  /// Declares two parameters to be one, by name: the head's and the embedding's, say. The second name is the canonical
  /// one of both: it gives the initial value, and parts, checkpoints and gradients know the parameter by it.
  void tie(std::string parameter, std::string with);
  /// Freezes all parameters whose canonical name matches the glob pattern ("llm.*", "vision.patch*").
  void freeze(std::string pattern);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<LossNode>& losses() const { return losses_; }
  const std::vector<std::pair<std::string, std::string>>& ties() const { return ties_; }
  const std::vector<std::string>& freezes() const { return frozen_; }
  bool frozen(std::string_view parameter) const;            ///< by canonical name
  std::string canonical(std::string_view parameter) const;  ///< its own name unless tied to another
  const Node& llm_node() const;
  const Node* find(std::string_view node) const;  ///< null where there is none
  /// Has the microbatch a row of this node? (The LLM and heads always do.)
  bool present(const Node& node, const Microbatch& microbatch) const;
  /// Checks names, inputs, one LLM, at least one loss. Throws Error saying what to do.
  void validate() const;

 private:
  Value add(Node node);
  std::vector<Node> nodes_;
  std::vector<LossNode> losses_;
  std::vector<std::pair<std::string, std::string>> ties_;
  std::vector<std::string> frozen_;
};

/// Canonical name of LLM layer i: "llm.layers.3". Encoders, heads and generators use their own name.
std::string layer_name(const Model::Node& node, std::size_t layer);
/// Does the name match the pattern? '*' stands for any run of characters, '?' for one.
bool glob_match(std::string_view pattern, std::string_view name);

}  // namespace nestor::modules
