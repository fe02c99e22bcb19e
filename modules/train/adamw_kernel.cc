#include <cmath>

#include <nestor/modules/train/adamw_kernel.h>

namespace nestor::modules {
namespace {

template <bool kHasGradient, class T>
void run(T* __restrict parameter, const T* __restrict gradient, T* __restrict exp_avg, T* __restrict exp_avg_sq,
         std::size_t size, const AdamwFactors& f) {
  const T beta1 = static_cast<T>(f.beta1), beta2 = static_cast<T>(f.beta2);
  const T rest1 = static_cast<T>(1 - f.beta1), rest2 = static_cast<T>(1 - f.beta2);
  const T keep = static_cast<T>(f.keep), step_size = static_cast<T>(f.step_size);
  const T correct2 = static_cast<T>(f.correct2), epsilon = static_cast<T>(f.epsilon);
  const T grad_scale = static_cast<T>(f.grad_scale);
  for (std::size_t i = 0; i < size; ++i) {
    const T g = kHasGradient ? gradient[i] * grad_scale : T{0};
    const T m = beta1 * exp_avg[i] + rest1 * g;
    const T v = beta2 * exp_avg_sq[i] + rest2 * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    parameter[i] = parameter[i] * keep - step_size * m / (std::sqrt(v) * correct2 + epsilon);
  }
}

template <class T>
void choose(T* parameter, const T* gradient, T* exp_avg, T* exp_avg_sq, std::size_t size, const AdamwFactors& f) {
  if (gradient)
    run<true>(parameter, gradient, exp_avg, exp_avg_sq, size, f);
  else
    run<false>(parameter, gradient, exp_avg, exp_avg_sq, size, f);
}

// Eight sums side by side: one alone waits for itself at every addition.
template <class T>
double sum_of_squares(const T* values, std::size_t size) {
  constexpr std::size_t kLanes = 8;
  double sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (std::size_t k = 0; k < kLanes; ++k) {
      const double value = static_cast<double>(values[i + k]);
      sums[k] += value * value;
    }
  for (; i < size; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace

double square_sum(const float* values, std::size_t size) {
  return sum_of_squares(values, size);
}
double square_sum(const double* values, std::size_t size) {
  return sum_of_squares(values, size);
}

void adamw_kernel(float* parameter, const float* gradient, float* exp_avg, float* exp_avg_sq, std::size_t size,
                  const AdamwFactors& factors) {
  choose(parameter, gradient, exp_avg, exp_avg_sq, size, factors);
}
void adamw_kernel(double* parameter, const double* gradient, double* exp_avg, double* exp_avg_sq, std::size_t size,
                  const AdamwFactors& factors) {
  choose(parameter, gradient, exp_avg, exp_avg_sq, size, factors);
}

}  // namespace nestor::modules
