#include <nestor/modules/encoder/vit.h>

namespace nestor::modules {

using enum Linear::Bias;

VitBlock::VitBlock(const VitOptions& options, const Seed& seed)
    : heads_(options.heads),
      norm1_(register_module("norm1", std::make_shared<LayerNorm>(options.width))),
      norm2_(register_module("norm2", std::make_shared<LayerNorm>(options.width))),
      qkv_(register_module("qkv", std::make_shared<Linear>(options.width, 3 * options.width, seed.child("qkv"), yes))),
      output_(
          register_module("output", std::make_shared<Linear>(options.width, options.width, seed.child("output"), yes))),
      fc1_(register_module("fc1", std::make_shared<Linear>(options.width, options.ffn, seed.child("fc1"), yes))),
      fc2_(register_module("fc2", std::make_shared<Linear>(options.ffn, options.width, seed.child("fc2"), yes))) {}

Tensor VitBlock::forward(const Tensor& x) {
  auto qkv = qkv_->forward(norm1_->forward(x)).view({x.size(0), x.size(1), 3, heads_, -1}).unbind(2);
  auto middle = x + output_->forward(attention(qkv[0], qkv[1], qkv[2], {}));
  return middle + fc2_->forward(torch::gelu(fc1_->forward(norm2_->forward(middle))));
}

Projector::Projector(std::int64_t in, std::int64_t out, const Seed& seed)
    : fc1_(register_module("fc1", std::make_shared<Linear>(in, out, seed.child("fc1"), yes))),
      fc2_(register_module("fc2", std::make_shared<Linear>(out, out, seed.child("fc2"), yes))) {}

VisionTransformer::VisionTransformer(const VitOptions& options, const Seed& seed) : options_(options) {
  patch_ = register_module("patch", std::make_shared<Linear>(options.channels * options.patch * options.patch,
                                                             options.width, seed.child("patch"), yes));
  auto blocks = std::make_shared<torch::nn::Module>();
  for (std::int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(std::make_shared<VitBlock>(options, seed.child("blocks").child(i)));
    blocks->register_module(std::to_string(i), blocks_.back());
  }
  register_module("blocks", blocks);
  norm_ = register_module("norm", std::make_shared<LayerNorm>(options.width));
  projector_ = register_module("projector",
                               std::make_shared<Projector>(options.width, options.llm_width, seed.child("projector")));
}

Tensors VisionTransformer::forward(const Tensors& inputs, const Context&) {
  const Tensor& pixels = inputs.at(0);
  const auto rows = (pixels.size(2) + options_.patch - 1) / options_.patch;
  const auto columns = (pixels.size(3) + options_.patch - 1) / options_.patch;
  auto x = patch_->forward(to_patches(pixels, options_.patch));
  x = x + positions_.get(rows, columns, options_.width, x.options());
  for (auto& block : blocks_) x = block->forward(x);
  return {projector_->forward(norm_->forward(x))};
}

double VisionTransformer::forward_flops(const Microbatch& microbatch) const {
  const auto images = static_cast<double>(microbatch.count(options_.input));
  const auto patches = static_cast<double>(patch_count(options_.image_size, options_.image_size, options_.patch));
  const auto width = static_cast<double>(options_.width), llm_width = static_cast<double>(options_.llm_width);
  const auto pixels = static_cast<double>(options_.channels * options_.patch * options_.patch);
  const double block = images * patches * 2 * width * (4 * width + 2 * static_cast<double>(options_.ffn)) +
                       attention_flops(images, patches, patches, width);
  return images * patches * 2 * (pixels * width + llm_width * (width + llm_width)) +
         static_cast<double>(options_.layers) * block;
}

}  // namespace nestor::modules
