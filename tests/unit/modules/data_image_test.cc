#include <cmath>

#include <gtest/gtest.h>

#include <nestor/modules/data/image.h>

#include "data_testing.h"

namespace nestor::modules {
namespace {

using testing::error_of;
using testing::make_jpeg;
using testing::make_png;
using testing::Png;
using testing::TestFolder;

/// Colours of a decoded picture, pixel by pixel.
std::vector<int> pixels(const torch::Tensor& image) {
  const auto flat = image.permute({1, 2, 0}).contiguous();
  const auto* data = flat.data_ptr<std::uint8_t>();
  return {data, data + flat.numel()};
}

int on_white(int value, int alpha) {
  return (value * alpha + 255 * (255 - alpha) + 127) / 255;
}

TEST(DataImage, RgbIsExact) {
  const auto image = decode_image(make_png({2, 1, 8, 2, false, {}, {}, -1, {1, 2, 3, 254, 128, 0}}), "x");
  EXPECT_EQ(image.sizes(), (std::vector<std::int64_t>{3, 1, 2}));
  EXPECT_EQ(image.scalar_type(), torch::kUInt8);
  EXPECT_EQ(pixels(image), (std::vector<int>{1, 2, 3, 254, 128, 0}));
}

TEST(DataImage, AlphaIsPutOnWhite) {
  const auto image =
      decode_image(make_png({3, 1, 8, 6, false, {}, {}, -1, {10, 20, 30, 255, 10, 20, 30, 0, 10, 20, 30, 100}}), "x");
  EXPECT_EQ(pixels(image),
            (std::vector<int>{10, 20, 30, 255, 255, 255, on_white(10, 100), on_white(20, 100), on_white(30, 100)}));
}

TEST(DataImage, GrayWithAlpha) {
  const auto image = decode_image(make_png({2, 1, 8, 4, false, {}, {}, -1, {40, 255, 40, 51}}), "x");
  const int mixed = on_white(40, 51);
  EXPECT_EQ(pixels(image), (std::vector<int>{40, 40, 40, mixed, mixed, mixed}));
}

TEST(DataImage, GrayOfEveryDepth) {
  EXPECT_EQ(pixels(decode_image(make_png({2, 1, 1, 0, false, {}, {}, -1, {0b01000000}}), "x")),
            (std::vector<int>{0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(pixels(decode_image(make_png({2, 1, 2, 0, false, {}, {}, -1, {0b01100000}}), "x")),
            (std::vector<int>{85, 85, 85, 170, 170, 170}));
  EXPECT_EQ(pixels(decode_image(make_png({2, 1, 4, 0, false, {}, {}, -1, {0x3c}}), "x")),
            (std::vector<int>{51, 51, 51, 204, 204, 204}));
}

TEST(DataImage, GrayColourKeyIsTransparent) {
  EXPECT_EQ(pixels(decode_image(make_png({2, 1, 8, 0, false, {}, {}, 7, {7, 8}}), "x")),
            (std::vector<int>{255, 255, 255, 8, 8, 8}));
}

TEST(DataImage, PaletteWithTransparency) {
  const auto image =
      decode_image(make_png({3, 1, 8, 3, false, {255, 0, 0, 0, 255, 0, 9, 8, 7}, {0, 128}, -1, {0, 1, 2}}), "x");
  EXPECT_EQ(pixels(image), (std::vector<int>{255, 255, 255, on_white(0, 128), 255, on_white(0, 128), 9, 8, 7}));
}

TEST(DataImage, SixteenBitsAreScaled) {
  const auto image = decode_image(
      make_png({2, 1, 16, 2, false, {}, {}, -1, {0xff, 0xff, 0, 0, 0x80, 0x80, 0x12, 0x12, 0xab, 0xcd, 0, 0x10}}), "x");
  const auto got = pixels(image);
  const std::vector<int> want = {255, 0, 128, 18, 171, 0};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1) << i;
}

TEST(DataImage, SixteenBitsWithAlpha) {
  const auto got = pixels(
      decode_image(make_png({1, 1, 16, 6, false, {}, {}, -1, {0x40, 0x40, 0x80, 0x80, 0xc0, 0xc0, 0x80, 0x80}}), "x"));
  EXPECT_NEAR(got[0], on_white(64, 128), 1);
  EXPECT_NEAR(got[1], on_white(128, 128), 1);
  EXPECT_NEAR(got[2], on_white(192, 128), 1);
}

TEST(DataImage, InterlacedIsThePlainPicture) {
  std::vector<std::uint8_t> rows(13 * 11 * 3);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint8_t>(i * 7);
  Png png{13, 11, 8, 2, false, {}, {}, -1, rows};
  const auto plain = decode_image(make_png(png), "x");
  png.interlaced = true;
  EXPECT_TRUE(decode_image(make_png(png), "x").equal(plain));
}

TEST(DataImage, JpegOfEveryColourSpace) {
  const int side = 16;
  const auto plain = [&](std::vector<std::uint8_t> colour) {
    std::vector<std::uint8_t> all;
    for (int i = 0; i < side * side; ++i) all.insert(all.end(), colour.begin(), colour.end());
    return decode_image(make_jpeg(all, side, side, static_cast<int>(colour.size())), "x");
  };
  const auto near = [](const torch::Tensor& image, std::vector<int> colour) {
    EXPECT_EQ(image.sizes(), (std::vector<std::int64_t>{3, 16, 16}));
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(image[c].min().item<int>(), colour[static_cast<std::size_t>(c)], 2);
      EXPECT_NEAR(image[c].max().item<int>(), colour[static_cast<std::size_t>(c)], 2);
    }
  };
  near(plain({200, 100, 50}), {200, 100, 50});
  near(plain({77}), {77, 77, 77});
  near(plain({255, 128, 0, 200}), {200, 100, 0});  // light through the inks: C·K, M·K, Y·K
}

TEST(DataImage, ContentDecidesNotTheName) {
  TestFolder folder;
  const auto path = folder.file("really_a_jpeg.png", make_jpeg(std::vector<std::uint8_t>(8 * 8 * 3, 90), 8, 8, 3));
  EXPECT_EQ(read_image_bytes(path).sizes(), (std::vector<std::int64_t>{3, 8, 8}));
}

TEST(DataImage, RangeIsMinusOneToOne) {
  TestFolder folder;
  const auto path = folder.file("a.png", make_png({3, 1, 8, 0, false, {}, {}, -1, {0, 255, 51}}));
  const auto image = read_image(path);
  EXPECT_EQ(image.scalar_type(), torch::kFloat32);
  EXPECT_FLOAT_EQ(image[0][0][0].item<float>(), -1.0F);
  EXPECT_FLOAT_EQ(image[0][0][1].item<float>(), 1.0F);
  EXPECT_FLOAT_EQ(image[0][0][2].item<float>(), -0.6F);
  EXPECT_TRUE(to_bytes(image).equal(read_image_bytes(path)));
}

TEST(DataImage, EveryByteSurvivesTheRange) {
  const auto bytes = torch::arange(0, 256, torch::kInt64).to(torch::kUInt8);
  EXPECT_TRUE(to_bytes(to_unit_range(bytes)).equal(bytes));
  EXPECT_EQ(to_bytes(torch::full({1}, NAN)).item<int>(), 0);
  EXPECT_EQ(to_bytes(torch::full({1}, 1e30)).item<int>(), 255);
}

TEST(DataImage, PngWritesWhatItReads) {
  TestFolder folder;
  const auto image = torch::arange(0, 3 * 5 * 7, torch::kInt64).remainder(256).to(torch::kUInt8).reshape({3, 5, 7});
  write_png(folder / "a.png", image);
  EXPECT_TRUE(read_image_bytes(folder / "a.png").equal(image));
  write_png(folder / "a.png", to_unit_range(image));
  EXPECT_TRUE(read_image_bytes(folder / "a.png").equal(image));
  EXPECT_TRUE(decode_image(encode_png(image.narrow(0, 0, 1)), "x")[2].equal(image[0]));
}

TEST(DataImage, FailedWriteLeavesNothing) {
  TestFolder folder;
  const auto image = torch::zeros({3, 2, 2}, torch::kUInt8);
  EXPECT_NE(error_of([&] { write_png(folder / "missing" / "a.png", image); }).find("cannot be written"),
            std::string::npos);
  std::filesystem::create_directory(folder / "taken.png");
  error_of([&] { write_png(folder / "taken.png", image); });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  error_of([&] { encode_png(torch::zeros({4, 2, 2})); });
  error_of([&] { encode_png(torch::zeros({3, 0, 2})); });
}

// ---- resize ---------------------------------------------------------------------------------------------------------

TEST(DataImage, EqualSizeIsUntouched) {
  const auto image = torch::arange(0, 3 * 64, torch::kInt64).to(torch::kUInt8).reshape({3, 8, 8});
  for (const Fit fit : {Fit::pad, Fit::crop, Fit::stretch}) EXPECT_TRUE(resize_image(image, 8, fit).equal(image));
}

TEST(DataImage, ShrinkingAverages) {
  auto checkers = torch::zeros({3, 64, 64}, torch::kUInt8);
  const auto parity = torch::arange(64).unsqueeze(0).add(torch::arange(64).unsqueeze(1)).remainder(2);
  checkers.copy_(parity.mul(255).expand({3, 64, 64}));
  const auto small = resize_image(checkers, 8);
  EXPECT_GE(small.min().item<int>(), 126);  // without antialiasing these would be 0 or 255
  EXPECT_LE(small.max().item<int>(), 129);
  EXPECT_TRUE(resize_image(torch::full({3, 40, 40}, 77, torch::kUInt8), 9).eq(77).all().item<bool>());
  EXPECT_TRUE(resize_image(torch::full({3, 4, 4}, 77, torch::kUInt8), 9).eq(77).all().item<bool>());
}

TEST(DataImage, FitsThatAreNotSquare) {
  auto wide = torch::zeros({3, 10, 20}, torch::kUInt8);
  wide.narrow(2, 0, 5).fill_(100);
  wide.narrow(2, 15, 5).fill_(100);
  const auto padded = resize_image(wide, 20, Fit::pad);
  EXPECT_TRUE(padded.narrow(1, 5, 10).equal(wide));
  EXPECT_TRUE(padded.narrow(1, 0, 5).eq(255).all().item<bool>());
  EXPECT_TRUE(padded.narrow(1, 15, 5).eq(255).all().item<bool>());
  EXPECT_TRUE(resize_image(wide, 10, Fit::crop).eq(0).all().item<bool>());
  EXPECT_EQ(resize_image(wide, 10, Fit::stretch)[0][5][0].item<int>(), 100);
  EXPECT_EQ(resize_image(torch::zeros({3, 1, 4000}, torch::kUInt8), 8).sizes(), (std::vector<std::int64_t>{3, 8, 8}));
}

TEST(DataImage, ContactSheet) {
  const auto images =
      torch::stack({torch::full({3, 2, 2}, 10, torch::kUInt8), torch::full({3, 2, 2}, 20, torch::kUInt8),
                    torch::full({3, 2, 2}, 30, torch::kUInt8)});
  const auto sheet = contact_sheet(images, 2, 1, 2);
  EXPECT_EQ(sheet.sizes(), (std::vector<std::int64_t>{3, 9, 9}));
  EXPECT_EQ(sheet[0][3][3].item<int>(), 10);
  EXPECT_EQ(sheet[0][0][4].item<int>(), 255);
  EXPECT_EQ(sheet[0][0][5].item<int>(), 20);
  EXPECT_EQ(sheet[0][8][3].item<int>(), 30);
  EXPECT_EQ(sheet[0][8][8].item<int>(), 255);
  EXPECT_EQ(contact_sheet(torch::zeros({0, 3, 4, 4}), 3).size(0), 3);
  error_of([&] { contact_sheet(images, 0); });
}

// ---- broken files ---------------------------------------------------------------------------------------------------

std::string small_png() {
  std::vector<std::uint8_t> rows(9 * 6 * 4);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint8_t>(i * i * 31);
  return make_png({9, 6, 8, 6, false, {}, {}, -1, rows});
}

std::string small_jpeg() {
  std::vector<std::uint8_t> rows(24 * 16 * 3);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint8_t>(i * i * 31);
  return make_jpeg(rows, 24, 16, 3);
}

TEST(DataImage, EveryTornPngIsAnError) {
  const std::string whole = small_png();
  for (std::size_t cut = 0; cut + 8 < whole.size(); ++cut) {  // the end chunk's name is its last eight bytes
    const auto text = error_of([&] { decode_image(std::string_view(whole).substr(0, cut), "torn.png"); });
    EXPECT_TRUE(text.starts_with("torn.png: ")) << text;
    EXPECT_TRUE(text.ends_with(")")) << text;
  }
}

TEST(DataImage, EveryTornJpegIsAnError) {
  const std::string whole = small_jpeg();
  for (std::size_t cut = 0; cut < whole.size() - 1; ++cut) {
    const auto text = error_of([&] { decode_image(std::string_view(whole).substr(0, cut), "torn.jpg"); });
    EXPECT_TRUE(text.starts_with("torn.jpg: ")) << text << cut;
  }
}

TEST(DataImage, FlippedBytesNeverCrash) {
  for (const std::string& whole : {small_png(), small_jpeg()}) {
    int refused = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      for (const int flip : {0x01, 0x80, 0xff}) {
        std::string broken = whole;
        broken[i] = static_cast<char>(broken[i] ^ flip);
        try {
          const auto image = decode_image(broken, "flipped");
          EXPECT_EQ(image.size(0), 3);
        } catch (const Error&) {
          ++refused;
        }
      }
    }
    EXPECT_GT(refused, 50);
  }
}

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::uint32_t crc(std::string_view data) {
  std::uint32_t value = 0xffffffff;
  for (const char c : data) {
    value ^= static_cast<unsigned char>(c);
    for (int k = 0; k < 8; ++k) value = value & 1 ? 0xedb88320U ^ (value >> 1) : value >> 1;
  }
  return ~value;
}

std::string png_of_size(std::uint32_t width, std::uint32_t height) {
  std::string png = small_png();
  png.replace(16, 8, big_endian(width) + big_endian(height));
  png.replace(29, 4, big_endian(crc(std::string_view(png).substr(12, 17))));
  return png;
}

TEST(DataImage, AbsurdSizesAreRefusedBeforeAnyAllocation) {
  EXPECT_NE(error_of([] { decode_image(png_of_size(60000, 60000), "big.png"); }).find("60000 x 60000"),
            std::string::npos);
  error_of([] { decode_image(png_of_size(0x7fffffff, 0x7fffffff), "big.png"); });
  error_of([] { decode_image(png_of_size(0, 5), "none.png"); });
  error_of([] { decode_image(png_of_size(9, 600), "short.png"); });  // fewer rows than announced
  std::string jpeg = small_jpeg();
  const auto frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_NE(error_of([&] { decode_image(jpeg, "big.jpg"); }).find("65500 x 65500"), std::string::npos);
}

TEST(DataImage, BrokenFilesNameThePathAndAHint) {
  TestFolder folder;
  std::filesystem::create_directory(folder / "folder.png");
  std::filesystem::create_symlink("nowhere.png", folder / "dangling.png");
  folder.file("empty.png", "");
  folder.file("text.png", "I am not a picture.\n");
  folder.file("gif.png", "GIF89a......");
  folder.file("signature.png", small_png().substr(0, 8));
  folder.file("header.png", small_png().substr(0, 33));
  folder.file("half.png", small_png().substr(0, small_png().size() / 2));
  folder.file("end.png", small_png().substr(0, small_png().size() - 12));
  folder.file("noise.png", small_png().substr(0, 33) + std::string(200, '\x5a'));
  folder.file("half.jpg", small_jpeg().substr(0, small_jpeg().size() / 2));
  folder.file("marker.jpg", "\xff\xd8\xff");
  folder.file("noise.jpg", "\xff\xd8\xff" + std::string(300, '\x33'));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"missing.png", "does not exist"},
      {"folder.png", "is a folder"},
      {"dangling.png", "is a link to nothing"},
      {"empty.png", "is empty"},
      {"text.png", "is neither a PNG"},
      {"gif.png", "is neither a PNG"},
      {"signature.png", "PNG"},
      {"header.png", "PNG"},
      {"half.png", "PNG"},
      {"end.png", "without its end"},
      {"noise.png", "PNG"},
      {"half.jpg", "JPEG"},
      {"marker.jpg", "no pixels"},
      {"noise.jpg", "JPEG"},
  };
  for (const auto& [name, what] : cases) {
    const auto text = error_of([&, file = name] { read_image(folder / file); });
    EXPECT_TRUE(text.starts_with((folder / name).string() + ": ")) << text;
    EXPECT_NE(text.find(what), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with(")")) << text;
  }
  EXPECT_NE(error_of([] { read_image("/dev/zero"); }).find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace nestor::modules
