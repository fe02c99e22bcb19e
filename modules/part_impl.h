#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nestor/modules/build.h>
#include <nestor/modules/part.h>

namespace nestor::modules {

/// Sources of a piece, as Part::sources says.
std::vector<std::string> source_names(const Model& model, const PartSpec& spec);

/// Where a gradient enters the graph. Edges, not tensors: an output's memory is then free once it has been sent.
class GraphStash final : public Part::Stash {
 public:
  struct Root {
    torch::autograd::Edge edge;
    std::vector<std::int64_t> shape;
    torch::TensorOptions options;
  };
  struct LossRoot {
    Root root;
    double scale = 0;
  };
  std::vector<Root> outputs;  ///< one per output; no function where no gradient can enter
  std::vector<LossRoot> losses;
  std::vector<Tensors> leaves;  ///< the inputs
  std::string microbatch;       ///< for errors
};

class PartImpl final : public Part {
 public:
  PartImpl(const Model& model, const PartSpec& spec, const PartOptions& options, const Dataset& dataset,
           ParameterStore& store);

  Forward forward(const std::vector<Tensors>& inputs, const Microbatch& microbatch, const LossScales& scales,
                  bool needs_backward) override;
  std::vector<Tensors> backward(std::unique_ptr<Stash> stash, const Tensors& output_gradients) override;
  Forward evaluate(const std::vector<Tensors>& inputs, const Microbatch& microbatch) override;

  const std::vector<std::string>& sources() const override { return sources_; }
  const std::vector<std::pair<std::string, Tensor>>& parameters() const override { return parameters_; }
  double forward_flops(const Microbatch& microbatch) const override;

 private:
  struct Piece {
    std::string name;
    std::shared_ptr<Module> module;
    const Model::Node* node = nullptr;
  };
  struct Result {
    Tensors outputs;
    std::vector<LossTerm> losses;
  };

  void adopt(Piece& piece, ParameterStore& store);
  std::vector<Tensors> make_leaves(const std::vector<Tensors>& inputs, bool gradients) const;
  Result run(const std::vector<Tensors>& inputs, const Microbatch& microbatch, bool training);
  void run_heads(const Tensors& hidden, RawInputs& raw, Context& context, std::vector<LossTerm>& losses);
  /// The arguments of a module whose inputs are raw ones and sources.
  Tensors arguments(const Model::Node& node, const std::vector<Tensors>& inputs, RawInputs& raw) const;
  bool needs_gradient(std::size_t source) const { return source_gradients_[source]; }

  const Model model_;
  const Model::Node* node_;  ///< in model_
  const PartOptions options_;
  const Dataset& dataset_;
  const bool first_, last_;  ///< LLM: has the first, the last layer
  std::string name_;         ///< for errors: "llm.layers.2-3"
  std::vector<std::string> sources_;
  std::vector<bool> source_gradients_;
  std::vector<Piece> layers_, heads_;
  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::vector<std::pair<Tensor, Tensor>> aliases_;  ///< (a module's own leaf, the lane's tensor whose memory it uses)
  bool trainable_ = false;
};

}  // namespace nestor::modules
