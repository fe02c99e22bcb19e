#pragma once

#include <memory>
#include <vector>

#include <nestor/modules/layers/attention.h>
#include <nestor/modules/layers/basic.h>
#include <nestor/modules/llm/embedding.h>
#include <nestor/modules/llm/mixture_of_experts.h>
#include <nestor/modules/module.h>

namespace nestor::modules {

/// Sizes of an LLM of the Qwen3 form (Yang et al., arXiv:2505.09388).
struct Qwen3Options {
  std::int64_t vocabulary = 0;
  std::int64_t layers = 4;  ///< decoder layers; the embedding is a layer of its own before them
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 16;  ///< even
  std::int64_t ffn = 192;      ///< of the dense layer or of each expert
  std::int64_t experts = 0;    ///< 0: dense
  std::int64_t top_k = 2;
  double rope_base = 1e4;
  std::vector<Splice> splices;  ///< one per encoder that the LLM reads
};

/// Causal self-attention with grouped queries, an RMS norm over each query and key head (QK-norm) and rotary
/// positions. Padding on the right is never seen by what stands before it, so it needs no mask.
/// Parameters: qkv.weight [(heads + 2 kv_heads) · head_dim, width], q_norm, k_norm [head_dim], output.weight.
class Qwen3Attention : public torch::nn::Module {
 public:
  Qwen3Attention(const Qwen3Options& options, const Seed& seed, double output_std);
  /// x [samples, length, width] → the same shape.
  Tensor forward(const Tensor& x);

 private:
  std::int64_t heads_, kv_heads_, head_dim_;
  std::shared_ptr<Linear> qkv_, output_;
  Tensor q_norm_, k_norm_;
  Rotary rotary_;
  CausalMask mask_;
};

/// A decoder layer: x + attention(norm(x)), x + ffn(norm(x)), the latter dense or a mixture of experts.
/// Inputs and outputs: hidden states [samples, length, width].
/// Parameters: norm1, attention.*, norm2, and mlp.* or experts.*
class Qwen3Layer : public Module {
 public:
  Qwen3Layer(const Qwen3Options& options, const Seed& seed);
  Tensors forward(const Tensors& inputs, const Context& context) override;
  /// As computed: padded tokens in the dense parts and all pairs in attention; experts on k slots of real tokens.
  double forward_flops(const Microbatch& microbatch) const override;

 private:
  Qwen3Options options_;
  std::shared_ptr<RmsNorm> norm1_, norm2_;
  std::shared_ptr<Qwen3Attention> attention_;
  std::shared_ptr<SwiGlu> mlp_;
  std::shared_ptr<MixtureOfExperts> experts_;
};

/// Final RMS norm and the map to the vocabulary. Inputs: hidden states [samples, length, width]. Outputs: logits
/// [samples, length, vocabulary]. Parameters: norm.weight, weight [vocabulary, width] (may be tied to the embedding's).
class LanguageHead : public Module {
 public:
  LanguageHead(const Qwen3Options& options, const Seed& seed);
  Tensors forward(const Tensors& inputs, const Context& context) override;
  double forward_flops(const Microbatch& microbatch) const override;

 private:
  Qwen3Options options_;
  std::shared_ptr<RmsNorm> norm_;
  Tensor weight_;
};

/// The LLM's layers in order: the embedding, then `layers` decoder layers, each with a factory of its own.
std::vector<ModuleFactory> decoder_layers(const Qwen3Options& options);

}  // namespace nestor::modules
