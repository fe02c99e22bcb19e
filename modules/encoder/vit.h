#pragma once

#include <memory>
#include <vector>

#include <nestor/modules/layers/attention.h>
#include <nestor/modules/layers/basic.h>
#include <nestor/modules/module.h>

namespace nestor::modules {

/// Sizes of a VisionTransformer.
struct VitOptions {
  std::int64_t channels = 3;
  std::int64_t patch = 4;  ///< side of a patch in pixels
  std::int64_t width = 64;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t ffn = 256;        ///< width between the two layers of a block's MLP
  std::int64_t llm_width = 64;   ///< width of the output
  std::int64_t image_size = 32;  ///< for forward_flops alone: forward takes any size
  std::string input = "pixels";  ///< the input that it reads: whose counts are its images
};

/// A pre-norm block over all patches: x + attention(norm(x)), x + mlp(norm(x)), GELU in the MLP.
class VitBlock : public torch::nn::Module {
 public:
  VitBlock(const VitOptions& options, const Seed& seed);
  Tensor forward(const Tensor& x);

 private:
  std::int64_t heads_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Linear> qkv_, output_, fc1_, fc2_;
};

/// Two layers with a GELU between them, from the encoder's width to the LLM's (as LLaVA-1.5, Liu et al.,
/// arXiv:2310.03744).
class Projector : public torch::nn::Module {
 public:
  Projector(std::int64_t in, std::int64_t out, const Seed& seed);
  Tensor forward(const Tensor& x) const { return fc2_->forward(torch::gelu(fc1_->forward(x))); }

 private:
  std::shared_ptr<Linear> fc1_, fc2_;
};

/// Vision transformer (Dosovitskiy et al., arXiv:2010.11929), pre-norm, without a class token, with fixed
/// two-dimensional sine and cosine positions so that images of any size pass, and a projector to the LLM's width.
/// Inputs: pixels [images, channels, H, W]. Outputs: [images, patches, LLM width], patches row by row.
/// Parameters: patch.*, blocks.N.*, norm.*, projector.fc1.*, projector.fc2.*
class VisionTransformer : public Module {
 public:
  VisionTransformer(const VitOptions& options, const Seed& seed);
  Tensors forward(const Tensors& inputs, const Context& context) override;
  /// Patch layer, per block 2 (4 w² + 2 w ffn) a patch and attention's 4 w a pair of patches, projector; w: width.
  double forward_flops(const Microbatch& microbatch) const override;

 private:
  VitOptions options_;
  GridPositions positions_;
  std::shared_ptr<Linear> patch_;
  std::vector<std::shared_ptr<VitBlock>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Projector> projector_;
};

}  // namespace nestor::modules
