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

/// AdamW over one lane's parameters (Loshchilov and Hutter, arXiv:1711.05101). State by canonical name.
class Optimizer {
 public:
  using Parameters = std::vector<std::pair<std::string, Tensor>>;

  Optimizer(OptimizerOptions options, Parameters parameters);
  /// Sum of squares of the gradients of those parameters that `counts` says are this lane's to count, in float64.
  double gradient_square_sum(const std::vector<bool>& counts) const;
  /// One update with gradients scaled by `scale` (clipping); an absent gradient counts as zero. Step starts at 1.
  void update(std::int64_t step, double scale);
  void zero_gradients();

  const Parameters& parameters() const { return parameters_; }
  /// Moments by canonical name: "NAME.exp_avg", "NAME.exp_avg_sq". Shared, not copied.
  Parameters state() const;

 private:
  OptimizerOptions options_;
  Parameters parameters_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
};

}  // namespace nestor::modules
