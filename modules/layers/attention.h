#pragma once

#include <vector>

#include <torch/torch.h>

#include <nestor/modules/batch.h>

namespace nestor::modules {

/// Scaled dot-product attention softmax(q kᵀ / √dim + mask) v (Vaswani et al., arXiv:1706.03762), with grouped queries
/// (Ainslie et al., arXiv:2305.13245): heads [h R, (h + 1) R) of q read head h of k and v, R = heads / kv heads.
/// q [batch, queries, heads, dim], k and v [batch, keys, kv heads, dim]; `mask` is added, [batch or 1, queries or 1,
/// keys], or undefined. Returns [batch, queries, heads · dim].
/// Plain multiplications and a softmax: the fused attention of later LibTorch is not in 1.13, and its backward on GPUs
/// does not add in a fixed order.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask);

/// Floating-point operations of attention over `batch` sequences: scores and weighted sum.
inline double attention_flops(double batch, double queries, double keys, double heads_dim) {
  return 4.0 * batch * queries * keys * heads_dim;
}

/// The additive mask [1, length, length] that hides later positions, remade only when a longer one is asked for.
class CausalMask {
 public:
  Tensor get(std::int64_t length, const torch::TensorOptions& options);

 private:
  Tensor mask_;
};

/// Rotary positions (Su et al., arXiv:2104.09864): coordinates (i, i + dim/2) of a head turn by position ·
/// base^(-2i/dim), so that a query and a key see only their distance. Tables are remade when a longer one is needed.
class Rotary {
 public:
  Rotary(std::int64_t dim, double base);
  /// x [batch, length, heads, dim], positions 0, 1, ... along the length.
  Tensor apply(const Tensor& x);

 private:
  std::int64_t dim_;
  double base_;
  Tensor cosine_, sine_;  // [length, 1, dim]; the sine carries the sign of the swapped half
};

/// Fixed two-dimensional sine and cosine positions of a grid of patches, [rows · columns, width], row by row: a quarter
/// of the width each for sine and cosine of the row and of the column (as in Beyer et al., arXiv:2205.01580). Any grid
/// has them, so an image of any size does. Float32 on the CPU; `width` is a multiple of 4.
Tensor grid_positions(std::int64_t rows, std::int64_t columns, std::int64_t width);

/// Keeps the positions of the last grid in the type and on the device where they are added.
class GridPositions {
 public:
  Tensor get(std::int64_t rows, std::int64_t columns, std::int64_t width, const torch::TensorOptions& options);

 private:
  std::int64_t rows_ = 0, columns_ = 0;
  Tensor positions_;
};

/// Cuts images [images, channels, H, W] into squares of side `patch`, row by row: [images, patches, channels · patch²].
/// An image whose sides are no multiples is continued by its last row and column: patches = ⌈H/patch⌉ · ⌈W/patch⌉.
Tensor to_patches(const Tensor& images, std::int64_t patch);
/// The inverse: [images, patches, channels · patch²] to [images, channels, height, width], cutting what was continued.
Tensor from_patches(const Tensor& patches, std::int64_t patch, std::int64_t channels, std::int64_t height,
                    std::int64_t width);
inline std::int64_t patch_count(std::int64_t height, std::int64_t width, std::int64_t patch) {
  return ((height + patch - 1) / patch) * ((width + patch - 1) / patch);
}

}  // namespace nestor::modules
