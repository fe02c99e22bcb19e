#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nestor/modules/error.h>

namespace nestor::modules::testing {

/// A folder of the running test's own, removed with it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name, std::string_view content) const;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct Png {
  std::uint32_t width = 0, height = 0;
  int bit_depth = 8;
  int color_type = 2;  ///< libpng's: 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGBA
  bool interlaced = false;
  std::vector<std::uint8_t> palette;       ///< RGB triples
  std::vector<std::uint8_t> transparency;  ///< alpha by palette entry
  int transparent_gray = -1;               ///< the colour key of a gray picture
  std::vector<std::uint8_t> rows;          ///< packed as the file has them, big-endian
};
/// Written through libpng's plain interface, not the one under test.
std::string make_png(const Png& png);

/// `pixels`: `components` bytes each, 1 gray, 3 RGB, 4 CMYK.
std::string make_jpeg(const std::vector<std::uint8_t>& pixels, int width, int height, int components);

/// The message of the Error that `run` throws; fails where it throws none or more than one line.
template <class Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

/// Pictures of distinct plain colours named a.png, b.png, ...
void write_pictures(const TestFolder& folder, int count, std::int64_t size);

}  // namespace nestor::modules::testing
