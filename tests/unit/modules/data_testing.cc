#include "data_testing.h"

#include <memory>

#include <png.h>
#include <turbojpeg.h>
#include <unistd.h>

#include <nestor/modules/data/image.h>

namespace nestor::modules::testing {

namespace fs = std::filesystem;

TestFolder::TestFolder() {
  std::string pattern = (fs::temp_directory_path() / "nestor-data-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path TestFolder::file(const std::string& name, std::string_view content) const {
  fs::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << content;
  return path_ / name;
}

std::string make_png(const Png& png) {
  std::string out;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &out,
      [](png_structp w, png_bytep data, png_size_t size) {
        static_cast<std::string*>(png_get_io_ptr(w))->append(reinterpret_cast<const char*>(data), size);
      },
      [](png_structp) {});
  png_set_IHDR(writer, info, png.width, png.height, png.bit_depth, png.color_type,
               png.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (std::size_t i = 0; i + 2 < png.palette.size(); i += 3) {
    palette.push_back({png.palette[i], png.palette[i + 1], png.palette[i + 2]});
  }
  if (!palette.empty()) png_set_PLTE(writer, info, palette.data(), static_cast<int>(palette.size()));
  if (!png.transparency.empty()) {
    png_set_tRNS(writer, info, png.transparency.data(), static_cast<int>(png.transparency.size()), nullptr);
  }
  if (png.transparent_gray >= 0) {
    png_color_16 key{};
    key.gray = static_cast<png_uint_16>(png.transparent_gray);
    png_set_tRNS(writer, info, nullptr, 0, &key);
  }
  png_write_info(writer, info);
  auto rows = png.rows;
  const std::size_t stride = rows.size() / png.height;
  std::vector<png_bytep> pointers;
  for (std::size_t y = 0; y < png.height; ++y) pointers.push_back(rows.data() + y * stride);
  png_write_image(writer, pointers.data());
  png_write_end(writer, info);
  png_destroy_write_struct(&writer, &info);
  return out;
}

std::string make_jpeg(const std::vector<std::uint8_t>& pixels, int width, int height, int components) {
  const std::unique_ptr<void, int (*)(tjhandle)> jpeg(tjInitCompress(), tjDestroy);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  const int format = components == 1 ? TJPF_GRAY : components == 3 ? TJPF_RGB : TJPF_CMYK;
  const int subsampling = components == 1 ? TJSAMP_GRAY : TJSAMP_444;
  EXPECT_EQ(tjCompress2(jpeg.get(), pixels.data(), width, 0, height, format, &data, &size, subsampling, 100,
                        TJFLAG_ACCURATEDCT),
            0);
  std::string out(reinterpret_cast<const char*>(data), size);
  tjFree(data);
  return out;
}

void write_pictures(const TestFolder& folder, int count, std::int64_t size) {
  for (int i = 0; i < count; ++i) {
    auto picture = torch::empty({3, size, size}, torch::kUInt8);
    for (int c = 0; c < 3; ++c) picture[c].fill_((i * 37 + c * 71) % 256);
    write_png(folder / (std::string(1, static_cast<char>('a' + i)) + ".png"), picture);
  }
}

}  // namespace nestor::modules::testing
