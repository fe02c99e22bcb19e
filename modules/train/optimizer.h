#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nestor/modules/batch.h>

namespace nestor::modules {

/// The `optimizer` section of a training config.
struct OptimizerOptions {
  std::string kind = "adamw";
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.01;    ///< on parameters of two and more dimensions
  double clip = 1.0;             ///< global norm over all modules; 0: none
  std::int64_t warmup = 0;       ///< steps of linear warm-up
  std::int64_t decay_steps = 0;  ///< steps of the whole cosine; 0: constant after warm-up
  double final_lr = 0.1;         ///< the cosine's end, as a share of lr
};

/// Learning rate of step `step` (1 for the first).
double learning_rate(const OptimizerOptions& options, std::int64_t step);

/// AdamW over one lane's parameters (Loshchilov and Hutter, arXiv:1711.05101). State by canonical name. Parameters of
/// low precision have float32 moments and a float32 master copy, so that small updates are not lost. Parameters without
/// requires_grad are left alone and have no state.
class Optimizer {
 public:
  using Parameters = std::vector<std::pair<std::string, Tensor>>;

  /// Throws Error on options that make no sense.
  Optimizer(OptimizerOptions options, Parameters parameters);
  /// Sum of squares of the gradients of those parameters that `counts` says are this lane's to count, in float64. One
  /// entry per parameter of `parameters()`; empty: all.
  double gradient_square_sum(const std::vector<bool>& counts = {}) const;
  /// One update with gradients scaled by `scale` (clipping); an absent gradient counts as zero. Step starts at 1.
  void update(std::int64_t step, double scale);
  /// Drops the gradients: absent again.
  void zero_gradients();

  const OptimizerOptions& options() const { return options_; }
  const Parameters& parameters() const { return parameters_; }
  /// "NAME.exp_avg", "NAME.exp_avg_sq" and for low precision "NAME.master". Shared, not copied: writing into them
  /// loads.
  Parameters state() const;

 private:
  struct State {
    Tensor exp_avg, exp_avg_sq;
    Tensor master;  ///< undefined where the parameter is precise enough itself
  };
  OptimizerOptions options_;
  Parameters parameters_;
  std::vector<State> states_;  ///< as parameters_; undefined tensors where frozen
};

/// Throws Error naming the field of the options that makes no sense.
void validate(const OptimizerOptions& options);

}  // namespace nestor::modules
