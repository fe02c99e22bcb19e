#include <algorithm>
#include <cstring>

#include <png.h>

#include <nestor/modules/data/files.h>
#include <nestor/modules/data/image.h>
#include <nestor/modules/error.h>

namespace nestor::modules {

torch::Tensor to_unit_range(const torch::Tensor& bytes) {
  return bytes.to(torch::kFloat32).div_(127.5).sub_(1.0);
}

torch::Tensor to_bytes(const torch::Tensor& image) {
  if (image.scalar_type() == torch::kUInt8) return image;
  // A NaN has no byte: a model that diverged draws black rather than noise.
  return image.detach()
      .to(torch::kCPU, torch::kFloat32)
      .add(1.0)
      .mul(127.5)
      .nan_to_num(0.0, 255.0, 0.0)
      .round()
      .clamp(0, 255)
      .to(torch::kUInt8);
}

torch::Tensor resize_image(const torch::Tensor& bytes, std::int64_t size, Fit fit) {
  torch::Tensor image = bytes;
  const std::int64_t height = image.size(1), width = image.size(2), shorter = std::min(height, width);
  std::int64_t out_height = size, out_width = size;
  if (fit == Fit::crop) {
    image = image.narrow(1, (height - shorter) / 2, shorter).narrow(2, (width - shorter) / 2, shorter);
  } else if (fit == Fit::pad) {
    const std::int64_t longer = std::max(height, width);
    out_height = std::max<std::int64_t>(1, (height * size + longer / 2) / longer);
    out_width = std::max<std::int64_t>(1, (width * size + longer / 2) / longer);
  }
  if (image.size(1) != out_height || image.size(2) != out_width) {
    namespace F = torch::nn::functional;
    const auto options = F::InterpolateFuncOptions()
                             .size(std::vector<std::int64_t>{out_height, out_width})
                             .mode(torch::kBilinear)
                             .align_corners(false)
                             .antialias(true);
    image = F::interpolate(image.to(torch::kFloat32).unsqueeze(0).contiguous(), options)
                .squeeze(0)
                .round()
                .clamp(0, 255)
                .to(torch::kUInt8);
  }
  if (out_height == size && out_width == size) return image.contiguous();
  auto padded = torch::full({3, size, size}, 255, torch::kUInt8);
  padded.narrow(1, (size - out_height) / 2, out_height).narrow(2, (size - out_width) / 2, out_width).copy_(image);
  return padded;
}

std::string encode_png(const torch::Tensor& image) {
  if (image.dim() != 3 || (image.size(0) != 3 && image.size(0) != 1) || image.numel() == 0) {
    throw Error("picture", "has no shape [3, H, W]", "one picture at a time");
  }
  const auto pixels = to_bytes(image).permute({1, 2, 0}).contiguous();
  png_image png;
  std::memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(pixels.size(1));
  png.height = static_cast<png_uint_32>(pixels.size(0));
  png.format = pixels.size(2) == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string content(bytes, '\0');
  if (!png_image_write_to_memory(&png, content.data(), &bytes, 0, pixels.data_ptr(), 0, nullptr)) {
    throw Error("picture", std::string("cannot be written as PNG: ") + png.message, "out of memory?");
  }
  content.resize(bytes);
  return content;
}

void write_png(const std::filesystem::path& path, const torch::Tensor& image) {
  replace_file(path, encode_png(image));
}

torch::Tensor contact_sheet(const torch::Tensor& images, std::int64_t columns, std::int64_t gap, std::int64_t scale) {
  if (images.dim() != 4 || images.size(1) != 3 || columns < 1 || gap < 0 || scale < 1) {
    throw Error("contact sheet", "needs pictures [N, 3, H, W] and at least one column", "");
  }
  const auto cells =
      to_bytes(images).to(torch::kCPU).repeat_interleave(scale, 2).repeat_interleave(scale, 3).contiguous();
  const std::int64_t count = cells.size(0), height = cells.size(2), width = cells.size(3);
  columns = std::min(columns, std::max<std::int64_t>(1, count));
  const std::int64_t rows = std::max<std::int64_t>(1, (count + columns - 1) / columns);
  auto sheet =
      torch::full({3, rows * height + (rows - 1) * gap, columns * width + (columns - 1) * gap}, 255, torch::kUInt8);
  for (std::int64_t i = 0; i < count; ++i) {
    sheet.narrow(1, i / columns * (height + gap), height).narrow(2, i % columns * (width + gap), width).copy_(cells[i]);
  }
  return sheet;
}

}  // namespace nestor::modules
