#pragma once

#include <cstddef>

namespace nestor::modules {

struct AdamwFactors {
  double beta1, beta2;
  double keep;       ///< 1 - lr * weight decay
  double step_size;  ///< lr / (1 - beta1^step)
  double correct2;   ///< 1 / sqrt(1 - beta2^step)
  double epsilon;
  double grad_scale;
};

/// One pass over contiguous memory; `gradient` may be null (zeros). No LibTorch here: the file has its own flags.
void adamw_kernel(float* parameter, const float* gradient, float* exp_avg, float* exp_avg_sq, std::size_t size,
                  const AdamwFactors& factors);
void adamw_kernel(double* parameter, const double* gradient, double* exp_avg, double* exp_avg_sq, std::size_t size,
                  const AdamwFactors& factors);

/// Sum of squares in float64.
double square_sum(const float* values, std::size_t size);
double square_sum(const double* values, std::size_t size);

}  // namespace nestor::modules
