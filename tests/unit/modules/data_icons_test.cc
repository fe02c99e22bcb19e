#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include <nestor/modules/data/icons.h>
#include <nestor/modules/data/image.h>
#include <nestor/modules/data/manifest.h>

#include "data_testing.h"

namespace nestor::modules {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::TestFolder;

torch::Tensor colour(int value, std::int64_t height = 16, std::int64_t width = 16) {
  auto image = torch::full({3, height, width}, value, torch::kUInt8);
  image[0][0][0] = 255 - value;
  return image;
}

/// A theme of two contexts: a name in both, links, equal pixels, a sheet of frames whose first is blank.
void make_theme(const TestFolder& theme) {
  for (const char* context : {"actions", "places"}) {
    fs::create_directories(theme / (std::string("16x16/") + context));
    fs::create_directories(theme / (std::string("8x8/") + context));
  }
  write_png(theme / "16x16/actions/edit-find.png", colour(10));
  write_png(theme / "16x16/actions/folder.png", colour(20));
  write_png(theme / "16x16/places/folder.png", colour(30));
  write_png(theme / "16x16/places/same-as-find.png", colour(10));
  auto sheet = torch::full({3, 32, 32}, 255, torch::kUInt8);
  sheet.narrow(1, 0, 16).narrow(2, 16, 16).copy_(colour(40));
  write_png(theme / "16x16/places/working.png", sheet);
  fs::create_symlink("edit-find.png", theme / "16x16/actions/gtk-find.png");
  fs::create_symlink("edit-find.png", theme / "16x16/actions/shared.png");
  fs::create_symlink("folder.png", theme / "16x16/places/shared.png");
  fs::create_symlink("../actions/folder.png", theme / "16x16/places/edit-find.png");
  write_png(theme / "8x8/actions/edit-find.png", colour(11, 8, 8));
  write_png(theme / "8x8/actions/only-small.png", colour(12, 8, 8));
}

std::string all_text(const fs::path& folder) {
  std::string text;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::stringstream content;
    content << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    text += content.str();
  }
  return text;
}

TEST(DataIcons, DistinctIconsWithAllTheirNames) {
  TestFolder theme, out;
  make_theme(theme);
  IconOptions options;
  options.size = 16;
  options.held_out_size = 8;
  const auto set = prepare_icons(theme.path(), out / "icons", options);
  EXPECT_TRUE(set.made);
  EXPECT_EQ(set.pictures, 4);
  EXPECT_EQ(set.held_out, 1);
  const auto manifest = read_manifest(out / "icons");
  const auto train = [](std::initializer_list<const char*> names) {
    std::vector<Caption> captions;
    for (const char* name : names) captions.push_back({name, Split::train});
    return captions;
  };
  // "shared" is claimed by two pictures and "edit find" is another's own name: neither is a further caption.
  ASSERT_EQ(manifest.pictures.size(), 5U);
  EXPECT_EQ(manifest.pictures[0], (Picture{"edit-find.png", train({"edit find", "gtk find", "same as find"})}));
  EXPECT_EQ(manifest.pictures[1], (Picture{"folder.places.png", train({"folder"})}));
  EXPECT_EQ(manifest.pictures[2], (Picture{"folder.png", train({"folder"})}));
  EXPECT_EQ(manifest.pictures[3], (Picture{"working.png", train({"working"})}));
  EXPECT_EQ(manifest.pictures[4], (Picture{"edit-find@8.png", {{"edit find", Split::held_out}}}));
  EXPECT_TRUE(read_image_bytes(out / "icons/working.png").equal(colour(40)));
  EXPECT_TRUE(read_image_bytes(out / "icons/folder.places.png").equal(colour(30)));
  EXPECT_EQ(all_text(out / "icons").find(theme.path().string()), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), {}), 1);
}

TEST(DataIcons, IsIdempotentAndRepairs) {
  TestFolder theme, out;
  make_theme(theme);
  IconOptions options;
  options.size = 16;
  EXPECT_TRUE(prepare_icons(theme.path(), out / "icons", options).made);
  const auto before = fs::last_write_time(out / "icons/folder.png");
  EXPECT_FALSE(prepare_icons(theme.path(), out / "icons/", options).made);
  EXPECT_EQ(fs::last_write_time(out / "icons/folder.png"), before);
  out.file("icons/folder.png", "torn");
  EXPECT_TRUE(prepare_icons(theme.path(), out / "icons", options).made);
  EXPECT_TRUE(read_image_bytes(out / "icons/folder.png").equal(colour(20)));
  options.size = 8;
  const auto smaller = prepare_icons(theme.path(), out / "icons", options);
  EXPECT_TRUE(smaller.made);
  EXPECT_EQ(smaller.pictures, 2);
  EXPECT_FALSE(fs::exists(out / "icons/folder.png"));
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), {}), 1);
}

TEST(DataIcons, RefusesWhatItMustNotTouch) {
  TestFolder theme, out;
  make_theme(theme);
  IconOptions options;
  options.size = 16;
  out.file("mine/letter.txt", "precious");
  EXPECT_NE(error_of([&] { prepare_icons(theme.path(), out / "mine", options); }).find("no prepared icon set"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(out / "mine/letter.txt"));
  options.size = 48;
  error_of([&] { prepare_icons(theme.path(), out / "icons", options); });
  error_of([&] { prepare_icons(theme / "missing", out / "icons", options); });
  options.size = 16;
  const auto file = out.file("file", "x");
  error_of([&] { prepare_icons(theme.path(), file, options); });
  error_of([&] { prepare_icons(theme.path(), file / "below", options); });
  theme.file("16x16/actions/broken.png", "\x89PNG");
  EXPECT_NE(error_of([&] { prepare_icons(theme.path(), out / "icons", options); }).find("broken.png"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(out / "icons"));
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), {}), 2);
}

}  // namespace
}  // namespace nestor::modules
