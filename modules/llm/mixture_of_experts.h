#pragma once

#include <nestor/modules/layers/basic.h>
#include <nestor/modules/module.h>

namespace nestor::modules {

/// silu(x Gᵀ) ∘ (x Uᵀ) through a third layer (Shazeer, arXiv:2002.05202); gate and up are one weight, gate first.
class SwiGlu : public torch::nn::Module {
 public:
  SwiGlu(std::int64_t width, std::int64_t ffn, const Seed& seed, double output_std);
  Tensor forward(const Tensor& x) const;

 private:
  std::shared_ptr<Linear> gate_up_, down_;
};

/// Balance loss of one sequence for each row of `lengths`: E · Σ_e f_e p_e, with f_e the share of the sequence's
/// routed slots that expert e got and p_e its mean probability (Fedus et al., arXiv:2101.03961, there over a batch;
/// per sequence as DeepSeek-V3, arXiv:2412.19437). 1 when balanced. Returns the sum over sequences.
/// probabilities [tokens, E] and chosen [tokens, k] of the sequences' tokens one after another; `sequence` [tokens]
/// says whose; lengths [sequences] in the probabilities' type.
Tensor balance_loss(const Tensor& probabilities, const Tensor& chosen, const Tensor& sequence, const Tensor& lengths);

/// Top-k mixture of SwiGLU experts: softmax over all experts, the k largest, their weights scaled to sum to one (as
/// Qwen3, arXiv:2505.09388). Drops nothing; every expert multiplies exactly its own tokens, in a fixed order, so that
/// results do not depend on what else is in the microbatch. Padding is neither routed nor counted and gets zeros.
/// Parameters: router.weight [E, width], gate_up [E, width, 2 ffn], down [E, ffn, width].
class MixtureOfExperts : public torch::nn::Module {
 public:
  MixtureOfExperts(std::int64_t width, std::int64_t ffn, std::int64_t experts, std::int64_t top_k, const Seed& seed,
                   double output_std);
  /// x [samples, length, width] → the same shape. Adds balance_loss to the loss "balance".
  /// On a GPU the tokens per expert are brought to the host once.
  Tensor forward(const Tensor& x, const Context& context) const;

 private:
  Tensor run_experts(const Tensor& tokens, const Tensor& chosen, const Tensor& weights) const;

  std::int64_t experts_, top_k_;
  std::shared_ptr<Linear> router_;
  Tensor gate_up_, down_;
};

}  // namespace nestor::modules
