#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include <png.h>
#include <turbojpeg.h>

#include <nestor/modules/data/files.h>
#include <nestor/modules/data/image.h>
#include <nestor/modules/error.h>

namespace nestor::modules {
namespace {

const char* const again = "the file may be torn: write or download it again";

void check_size(std::int64_t width, std::int64_t height, const std::string& name) {
  if (width <= 0 || height <= 0) throw Error(name, "has no pixels", again);
  if (width > max_image_pixels / height) {
    throw Error(name, "is " + std::to_string(width) + " x " + std::to_string(height) + " pixels",
                "at most " + std::to_string(max_image_pixels) + " pixels are read: scale it down");
  }
}

torch::Tensor allocate(std::int64_t height, std::int64_t width, std::int64_t channels) {
  return torch::empty({height, width, channels}, torch::kUInt8);
}

/// Longest pixel loops of the reader: [H, W, 4] with alpha, composited on white, to [3, H, W].
torch::Tensor on_white(const torch::Tensor& rgba) {
  const std::int64_t pixels = rgba.size(0) * rgba.size(1);
  auto image = torch::empty({3, rgba.size(0), rgba.size(1)}, torch::kUInt8);
  const auto* in = rgba.data_ptr<std::uint8_t>();
  auto* out = image.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < pixels; ++i, in += 4) {
    const unsigned alpha = in[3];
    for (int c = 0; c < 3; ++c) {
      out[c * pixels + i] = static_cast<std::uint8_t>((in[c] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
  }
  return image;
}

// libpng's simplified interface catches its own longjmps in C, so none crosses a C++ frame here.
torch::Tensor decode_png(std::string_view content, const std::string& name) {
  png_image png;
  std::memset(&png, 0, sizeof png);
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> guard(&png, png_image_free);
  if (!png_image_begin_read_from_memory(&png, content.data(), content.size())) {
    throw Error(name, std::string("is not a readable PNG: ") + png.message, again);
  }
  check_size(png.width, png.height, name);
  png.format = PNG_FORMAT_RGBA;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit files without a gamma are sRGB like the rest, not linear
  auto rgba = allocate(png.height, png.width, 4);
  if (!png_image_finish_read(&png, nullptr, rgba.data_ptr(), 0, nullptr)) {
    throw Error(name, std::string("is not a readable PNG: ") + png.message, again);
  }
  // The simplified interface stops at the last pixel; the end chunk tells a whole file from a cut one.
  if (content.find("IEND") == std::string_view::npos) throw Error(name, "is a PNG without its end", again);
  return on_white(rgba);
}

torch::Tensor decode_jpeg(std::string_view content, const std::string& name) {
  const std::unique_ptr<void, int (*)(tjhandle)> jpeg(tjInitDecompress(), tjDestroy);
  if (!jpeg) throw Error(name, "cannot start the JPEG reader", "out of memory?");
  const auto fail = [&] {
    throw Error(name, std::string("is not a readable JPEG: ") + tjGetErrorStr2(jpeg.get()), again);
  };
  const auto* data = reinterpret_cast<const unsigned char*>(content.data());
  const auto bytes = static_cast<unsigned long>(content.size());
  int width = 0, height = 0, subsampling = 0, colorspace = 0;
  if (tjDecompressHeader3(jpeg.get(), data, bytes, &width, &height, &subsampling, &colorspace) != 0) fail();
  check_size(width, height, name);
  const bool cmyk = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  auto pixels = allocate(height, width, cmyk ? 4 : 3);
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(jpeg.get(), data, bytes, pixels.data_ptr<std::uint8_t>(), width, 0, height,
                    cmyk ? TJPF_CMYK : TJPF_RGB, flags) != 0) {
    fail();
  }
  if (cmyk) {  // stored as the share of light left through each ink, the convention of every writer in use
    const auto wide = pixels.to(torch::kInt32);
    pixels = ((wide.narrow(2, 0, 3) * wide.narrow(2, 3, 1) + 127).floor_divide(255)).to(torch::kUInt8);
  }
  return pixels.permute({2, 0, 1}).contiguous();
}

}  // namespace

torch::Tensor decode_image(std::string_view content, const std::string& name) {
  using namespace std::string_view_literals;
  if (content.empty()) throw Error(name, "is empty", again);
  if (content.starts_with("\x89PNG"sv)) return decode_png(content, name);
  if (content.starts_with("\xff\xd8\xff"sv)) return decode_jpeg(content, name);
  throw Error(name, "is neither a PNG nor a JPEG", "convert it, or move it out of the folder");
}

torch::Tensor read_image_bytes(const std::filesystem::path& path) {
  return decode_image(read_file(path, max_image_bytes), path.string());
}

torch::Tensor read_image(const std::filesystem::path& path) {
  return to_unit_range(read_image_bytes(path));
}

}  // namespace nestor::modules
