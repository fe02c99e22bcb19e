#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nestor/modules/part.h>
#include <nestor/modules/train/counts.h>
#include <nestor/modules/train/optimizer.h>

namespace nestor::modules {

/// Raw inputs given by hand, by input name; what is not in it is absent.
using InputMap = std::map<std::string, Tensor, std::less<>>;

/// All modules of a model in one process and one autograd graph per microbatch: what parts on lanes must equal, and
/// what samples from a trained model. One thread at a time.
class WholeModel {
 public:
  /// Builds every module; weights are those that parts with equal options start from.
  WholeModel(Model model, PartOptions options);
  ~WholeModel();
  WholeModel(WholeModel&&) noexcept;

  const Model& model() const;
  /// Every parameter once, by canonical name, in node order; frozen ones have requires_grad off.
  const std::vector<std::pair<std::string, Tensor>>& parameters() const;

  /// Forward and backward of one microbatch; gradients accumulate. Throws Error naming module and microbatch.
  LossSums train(const Microbatch& microbatch, const Dataset& dataset, const LossScales& scales);
  /// Loss sums without a graph.
  LossSums evaluate(const Microbatch& microbatch, const Dataset& dataset);

  /// The LLM's outputs for given inputs, no graph, dropout off. The microbatch describes the inputs' lengths.
  Tensors hidden(const Microbatch& microbatch, const InputMap& inputs);
  /// A head's outputs, from outputs of `hidden`.
  Tensors head(std::string_view name, const Tensors& hidden, const Microbatch& microbatch, const InputMap& inputs);
  /// A generator's output (Context::sampling). Raw inputs not given are undefined.
  Tensors sample(std::string_view generator, const Microbatch& microbatch, const InputMap& inputs);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct ReferenceStep {
  StepCounts counts;
  LossMeans losses;
  double grad_norm = 0;  ///< before clipping
  bool skipped = false;  ///< the norm is not finite: nothing was changed
};

/// What a step does with the gradients, alike for the reference and every lane: clips by the global norm, or skips.
struct UpdateDecision {
  double norm = 0;
  double scale = 1;
  bool skip = false;
};
/// `square_sum`: of all gradients of the model, each parameter once. Not finite: skip.
UpdateDecision decide_update(double square_sum, double clip);

/// One training step in a plain loop: the definition of a right step. Clears gradients first and leaves the step's own
/// (unclipped) in the parameters.
ReferenceStep reference_step(WholeModel& model, Optimizer& optimizer, const StepBatch& batch, const Dataset& dataset);

/// Mean losses over a list of microbatches, no gradients.
LossMeans reference_evaluate(WholeModel& model, const StepBatch& batch, const Dataset& dataset);

}  // namespace nestor::modules
