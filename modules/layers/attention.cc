#include <cmath>
#include <limits>

#include <nestor/modules/layers/attention.h>

namespace nestor::modules {

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const auto batch = q.size(0), queries = q.size(1), heads = q.size(2), dim = q.size(3);
  const auto keys = k.size(1), groups = k.size(2), repeat = heads / groups;
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  // The queries of a group stand one after another, so that keys and values need not be repeated.
  Tensor qs = q.view({batch, queries, groups, repeat, dim})
                  .permute({0, 2, 3, 1, 4})
                  .reshape({batch * groups, repeat * queries, dim});
  Tensor ks = k.permute({0, 2, 3, 1}).reshape({batch * groups, dim, keys});
  Tensor vs = v.permute({0, 2, 1, 3}).reshape({batch * groups, keys, dim});
  Tensor weights;
  if (mask.defined()) {
    Tensor bias = mask.view({mask.size(0), 1, 1, mask.size(1), keys})
                      .expand({batch, groups, repeat, queries, keys})
                      .reshape({batch * groups, repeat * queries, keys});
    weights = torch::softmax(torch::baddbmm(bias, qs, ks, 1, scale), -1);
  } else {
    weights = torch::softmax(torch::bmm(qs * scale, ks), -1);
  }
  return torch::bmm(weights, vs)
      .view({batch, groups, repeat, queries, dim})
      .permute({0, 3, 1, 2, 4})
      .reshape({batch, queries, heads * dim});
}

namespace {

bool fits(const Tensor& table, std::int64_t length, const torch::TensorOptions& options) {
  return table.defined() && table.size(-3) >= length && table.dtype() == options.dtype() &&
         table.device() == options.device();
}

Tensor to_options(const Tensor& table, const torch::TensorOptions& options) {
  return table.to(options.device(), c10::typeMetaToScalarType(options.dtype()));
}

}  // namespace

Tensor CausalMask::get(std::int64_t length, const torch::TensorOptions& options) {
  if (!mask_.defined() || mask_.size(1) < length || mask_.dtype() != options.dtype() ||
      mask_.device() != options.device()) {
    c10::InferenceMode outside(false);  // an evaluation's table serves training too
    torch::NoGradGuard no_grad;
    mask_ = to_options(
        torch::full({1, length, length}, -std::numeric_limits<float>::infinity(), torch::kFloat32).triu(1), options);
  }
  return mask_.narrow(1, 0, length).narrow(2, 0, length);
}

Rotary::Rotary(std::int64_t dim, double base) : dim_(dim), base_(base) {}

Tensor Rotary::apply(const Tensor& x) {
  const auto length = x.size(1);
  if (!fits(cosine_, length, x.options())) {
    c10::InferenceMode outside(false);
    torch::NoGradGuard no_grad;
    auto position = torch::arange(length, torch::kFloat64);
    auto frequency = torch::pow(base_, torch::arange(0, dim_, 2, torch::kFloat64).div(-static_cast<double>(dim_)));
    auto angle = torch::outer(position, frequency);
    cosine_ = to_options(torch::cat({angle.cos(), angle.cos()}, -1).unsqueeze(1), x.options());
    sine_ = to_options(torch::cat({-angle.sin(), angle.sin()}, -1).unsqueeze(1), x.options());
  }
  auto swapped = x.roll({dim_ / 2}, {-1});
  return torch::addcmul(x * cosine_.narrow(0, 0, length), swapped, sine_.narrow(0, 0, length));
}

Tensor grid_positions(std::int64_t rows, std::int64_t columns, std::int64_t width) {
  const auto quarter = width / 4;
  auto frequency = torch::pow(1e4, torch::arange(quarter, torch::kFloat64).div(-static_cast<double>(quarter)));
  auto row =
      torch::outer(torch::arange(rows, torch::kFloat64), frequency).unsqueeze(1).expand({rows, columns, quarter});
  auto column =
      torch::outer(torch::arange(columns, torch::kFloat64), frequency).unsqueeze(0).expand({rows, columns, quarter});
  return torch::cat({row.sin(), row.cos(), column.sin(), column.cos()}, -1)
      .view({rows * columns, width})
      .to(torch::kFloat32);
}

Tensor GridPositions::get(std::int64_t rows, std::int64_t columns, std::int64_t width,
                          const torch::TensorOptions& options) {
  if (!positions_.defined() || rows != rows_ || columns != columns_ || positions_.dtype() != options.dtype() ||
      positions_.device() != options.device()) {
    c10::InferenceMode outside(false);
    torch::NoGradGuard no_grad;
    positions_ = to_options(grid_positions(rows, columns, width), options);
    rows_ = rows;
    columns_ = columns;
  }
  return positions_;
}

namespace {

/// Repeats the last slice along `dim` up to `size`. (LibTorch's own replication lacks bfloat16.)
Tensor continued(const Tensor& x, std::int64_t dim, std::int64_t size) {
  const auto had = x.size(dim);
  if (had == size) return x;
  auto shape = x.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = size - had;
  return torch::cat({x, x.narrow(dim, had - 1, 1).expand(shape)}, dim);
}

}  // namespace

Tensor to_patches(const Tensor& images, std::int64_t patch) {
  const auto n = images.size(0), channels = images.size(1);
  const auto rows = (images.size(2) + patch - 1) / patch, columns = (images.size(3) + patch - 1) / patch;
  Tensor whole = continued(continued(images, 2, rows * patch), 3, columns * patch);
  return whole.reshape({n, channels, rows, patch, columns, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({n, rows * columns, channels * patch * patch});
}

Tensor from_patches(const Tensor& patches, std::int64_t patch, std::int64_t channels, std::int64_t height,
                    std::int64_t width) {
  const auto n = patches.size(0);
  const auto rows = (height + patch - 1) / patch, columns = (width + patch - 1) / patch;
  return patches.reshape({n, rows, columns, channels, patch, patch})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({n, channels, rows * patch, columns * patch})
      .narrow(2, 0, height)
      .narrow(3, 0, width);
}

}  // namespace nestor::modules
