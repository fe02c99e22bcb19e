#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nestor/modules/model.h>

namespace nestor::modules {

/// Which piece of a model: an encoder, LLM layers [first, last) (heads and losses with the last), or a generator.
struct PartSpec {
  std::string node;              ///< name of the encoder, LLM or generator
  std::int32_t first_layer = 0;  ///< LLM only
  std::int32_t last_layer = 0;
};

struct PartOptions {
  torch::Dtype dtype = torch::kFloat32;  ///< of parameters and floating inputs; weights are drawn in float32, then cast
  torch::Device device = torch::kCPU;
  Seed seed;  ///< the run's
  /// Sources whose outputs need no gradient, everything upstream of them being frozen (outline.h tells). Leaving one
  /// out costs time, not correctness.
  std::vector<std::string> frozen_sources;
};

/// By loss name: 1 / (global count of the step), times its weight: what the gradient of each sum starts from.
using LossScales = std::map<std::string, double, std::less<>>;
/// Loss sums of a microbatch, undivided, by loss name.
using LossSums = std::map<std::string, double, std::less<>>;

/// The parameters of one lane by canonical name, shared by its parts, so that tied weights and a pool's members on one
/// lane are one tensor.
class ParameterStore {
 public:
  using Entry = std::pair<std::string, Tensor>;
  /// The stored tensor of that name, or `tensor` after storing it.
  Tensor share(const std::string& name, Tensor tensor);
  const std::vector<Entry>& entries() const { return entries_; }  ///< in order of first sharing
  Tensor find(std::string_view name) const;                       ///< undefined where there is none

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// A piece of the model on one lane, with the forward and backward that a plan's rows mean. Forward outputs leave
/// detached; inputs become fresh leaves; backward's roots are the received gradients and the piece's own losses;
/// everything is freed at its last use. One thread at a time.
class Part {
 public:
  /// What a forward keeps for its backward. Destroying it frees the graph.
  class Stash {
   public:
    virtual ~Stash() = default;
  };
  struct Forward {
    Tensors outputs;  ///< detached; undefined where the value is absent
    LossSums losses;
    std::unique_ptr<Stash> stash;  ///< null where no backward will run
  };

  virtual ~Part() = default;
  /// `inputs`: one entry per source in `sources()`, that source's outputs; empty where the microbatch lacks it. Raw
  /// inputs are read by the part itself from the dataset. Call it only where the model says that the node is present.
  /// The stash is null without `needs_backward`, and where nothing here or upstream is trainable. Throws Error naming
  /// module and microbatch.
  virtual Forward forward(const std::vector<Tensors>& inputs, const Microbatch& microbatch, const LossScales& scales,
                          bool needs_backward) = 0;
  /// `output_gradients` match Forward::outputs, undefined (or an empty vector) meaning zero. Returns the gradients of
  /// forward's inputs in the same shape, undefined where an input needs none or got none. Parameter gradients
  /// accumulate. A null stash is allowed: no gradients, one empty entry per source. Throws Error.
  virtual std::vector<Tensors> backward(std::unique_ptr<Stash> stash, const Tensors& output_gradients) = 0;
  /// Loss sums alone, no graph: evaluation.
  virtual Forward evaluate(const std::vector<Tensors>& inputs, const Microbatch& microbatch) = 0;

  /// Names of the nodes whose outputs this part reads: for LLM layers after the first the LLM itself; for the first
  /// its encoders; for a generator the LLM and encoders; each once, in the order of the node's declared inputs.
  virtual const std::vector<std::string>& sources() const = 0;

  /// Own parameters by canonical name, each once, in a fixed order; frozen ones have requires_grad off. A name that
  /// parts on several lanes list (tied ends, a pool's members) is one parameter: its gradients are to be summed over
  /// the lanes, and it counts once in the norm.
  virtual const std::vector<std::pair<std::string, Tensor>>& parameters() const = 0;
  virtual double forward_flops(const Microbatch& microbatch) const = 0;
};

/// Builds the piece: its own layers only, each from its own seed, its parameters through `store`. `dataset` must
/// outlive it. Throws Error on a spec that names no node.
std::unique_ptr<Part> make_part(const Model& model, const PartSpec& spec, const PartOptions& options,
                                const Dataset& dataset, ParameterStore& store);

}  // namespace nestor::modules
