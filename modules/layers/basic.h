#pragma once

#include <string_view>

#include <torch/torch.h>

#include <nestor/modules/batch.h>
#include <nestor/modules/seed.h>

// What every layer is made of. Weights come from the layer's own seed: LibTorch's ready-made layers draw from the
// process-wide generator.
namespace nestor::modules {

/// Draws of N(0, std²) from the stream `name` of `seed`: float32, on the CPU, without gradient.
Tensor normal(const Seed& seed, std::string_view name, at::IntArrayRef shape, double std);

/// y = x Wᵀ + b with `weight` [out, in], `bias` [out] (zero at first, or none). x is [..., in].
class Linear : public torch::nn::Module {
 public:
  enum class Bias : bool { no, yes };
  /// Draws W from N(0, std²); a negative `std` stands for 1/√in, 0 makes the layer return zero at first.
  Linear(std::int64_t in, std::int64_t out, const Seed& seed, Bias bias = Bias::no, double std = -1);
  Tensor forward(const Tensor& x) const { return torch::linear(x, weight_, bias_); }
  std::int64_t in() const { return weight_.size(1); }
  std::int64_t out() const { return weight_.size(0); }
  /// Of `rows` rows: a multiplication and an addition per weight.
  double flops(double rows) const { return 2.0 * rows * static_cast<double>(in() * out()); }

 private:
  Tensor weight_, bias_;
};

/// x · w / √(mean(x²) + ε) over the last dimension (Zhang and Sennrich, arXiv:1910.07467). `weight` broadcasts against
/// x; its last dimension is x's. Computed in float32 for shorter types. One node in the graph with a backward of its
/// own, since small models are bound by the number of operators.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon = 1e-6);

/// rms_norm with a weight [size] of its own, one at first.
class RmsNorm : public torch::nn::Module {
 public:
  explicit RmsNorm(std::int64_t size) : weight_(register_parameter("weight", torch::ones({size}))) {}
  Tensor forward(const Tensor& x) const { return rms_norm(x, weight_); }

 private:
  Tensor weight_;
};

/// Layer norm over the last dimension with `weight` and `bias` (Ba et al., arXiv:1607.06450).
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(std::int64_t size)
      : weight_(register_parameter("weight", torch::ones({size}))),
        bias_(register_parameter("bias", torch::zeros({size}))) {}
  Tensor forward(const Tensor& x) const { return torch::layer_norm(x, weight_.sizes(), weight_, bias_, 1e-6); }

 private:
  Tensor weight_, bias_;
};

}  // namespace nestor::modules
