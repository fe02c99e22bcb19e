#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nestor/modules/generator/rectified_flow.h>
#include <nestor/modules/layers/attention.h>
#include <nestor/modules/layers/basic.h>
#include <nestor/modules/module.h>

namespace nestor::modules {

/// One thing that a generator is told: the LLM's hidden states or an encoder's output.
struct ContextSource {
  enum class Kind : std::uint8_t {
    sequence,  ///< [samples, length, width]; a sample's first count(input) rows are real
    images     ///< [images, patches, width] of the samples that have `input`, count(input) images each
  };
  Kind kind = Kind::sequence;
  std::string input = "tokens";  ///< the raw input whose counts say how much of it a sample has
  std::int64_t width = 64;
  std::int64_t rows = 0;  ///< patches of an image, for forward_flops alone
};

/// Sizes of a DiffusionTransformer.
struct MmditOptions {
  std::int64_t channels = 3;
  std::int64_t image_size = 32;  ///< side of the images drawn; training takes the targets' own size
  std::int64_t patch = 4;
  std::int64_t width = 64;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t ffn = 256;
  std::vector<ContextSource> contexts;
  std::string target = "target";  ///< the raw input whose counts say how many images a sample has or gets
  FlowOptions flow;
  std::int64_t sample_steps = 30;
  double guidance = 1.0;  ///< 1: none; above: away from what would be drawn without context (arXiv:2207.12598)
};

/// The weights of one stream (context or image) in a block: modulation, query, key and value, and unless the stream
/// ends here its output and MLP.
class MmditStream : public torch::nn::Module {
 public:
  MmditStream(const MmditOptions& options, const Seed& seed, bool ends);
  struct Projected {
    Tensor query_key;    ///< normed, [n, length, 2, heads, dim]
    Tensor value;        ///< [n, length, heads, dim]
    Tensors modulation;  ///< scales, shifts and gates that `finish` goes on with, [n, 1, width] each
  };
  /// x [n, length, width] modulated by `condition` [n, width].
  Projected project(const Tensor& x, const Tensor& condition) const;
  /// x after attention's result [n, length, width] and the MLP.
  Tensor finish(const Tensor& x, const Tensor& attended, const Tensors& modulation) const;

 private:
  std::int64_t heads_;
  bool ends_;
  std::shared_ptr<Linear> modulation_, qkv_, output_, fc1_, fc2_;
  Tensor qk_norm_;
};

/// Multimodal diffusion transformer as in Stable Diffusion 3 (Esser et al., arXiv:2403.03206): context and noisy
/// patches have weights of their own and attend jointly; time and pooled context modulate each block, whose gates are
/// zero at first (adaLN-zero, Peebles and Xie, arXiv:2212.09748). QK-norm. A learnt token stands at the head of the
/// context and is all of it where the context is dropped. Inputs: the context sources, then the target images [targets,
/// channels, H, W] of the samples that have some (none when sampling). Outputs: {loss sum}: over targets, the mean
/// squared error of the velocity; its count is the number of target images. With Context::sampling instead {images
/// [targets, channels, image_size, image_size] in [-1, 1]} for the samples whose descriptor counts targets, from noise
/// of their own.
class DiffusionTransformer : public Module {
 public:
  DiffusionTransformer(const MmditOptions& options, const Seed& seed);
  Tensors forward(const Tensors& inputs, const Context& context) override;
  /// Targets of image_size; per block and row 2 (4 w² + 2 w ffn), attention's 4 w a pair of rows, modulation; w: width.
  double forward_flops(const Microbatch& microbatch) const override;

 private:
  struct Told;  // the context of each target
  Told gather(const Tensors& inputs, const std::vector<std::size_t>& owners, const Context& context,
              const std::vector<bool>& dropped);
  /// What the network says of x [targets, channels, H, W] at `time` [targets].
  Tensor denoise(const Tensor& x, const Tensor& time, const Told& told);
  Tensor sample(const Tensors& inputs, const std::vector<std::size_t>& owners, const Context& context);

  MmditOptions options_;
  GridPositions positions_;
  std::vector<std::shared_ptr<RmsNorm>> context_norms_;
  std::vector<std::shared_ptr<Linear>> context_projections_;
  Tensor nothing_;  // [1, 1, width]
  std::shared_ptr<Linear> patch_, time1_, time2_, pooled_, final_modulation_, final_;
  std::vector<std::pair<std::shared_ptr<MmditStream>, std::shared_ptr<MmditStream>>> blocks_;
};

}  // namespace nestor::modules
