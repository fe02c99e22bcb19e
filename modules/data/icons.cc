#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <nestor/modules/data/files.h>
#include <nestor/modules/data/icons.h>
#include <nestor/modules/data/image.h>
#include <nestor/modules/data/manifest.h>
#include <nestor/modules/error.h>

namespace nestor::modules {

namespace fs = std::filesystem;

namespace {

const char* const mark_file = "icons.json";
constexpr std::int64_t max_mark_bytes = 1 << 20;

/// An icon of one size: pixels once, all its names.
struct Icon {
  std::string file;  ///< in the folder to make
  torch::Tensor pixels;
  std::vector<std::string> captions;  ///< own names first
};

/// Its picture at the nominal size; of a sheet of frames the first that shows anything.
torch::Tensor read_icon(const fs::path& path, std::int64_t size) {
  auto pixels = read_image_bytes(path);
  const std::int64_t height = pixels.size(1), width = pixels.size(2);
  if (height == size && width == size) return pixels;
  if (height % size != 0 || width % size != 0) return resize_image(pixels, size);
  torch::Tensor frame;
  for (std::int64_t i = 0; i < height / size * (width / size); ++i) {
    frame = pixels.narrow(1, i / (width / size) * size, size).narrow(2, i % (width / size) * size, size);
    if (frame.min().item<int>() != frame.max().item<int>()) break;
  }
  return frame.contiguous();
}

std::string content_of(const torch::Tensor& pixels) {
  return {reinterpret_cast<const char*>(pixels.data_ptr()), static_cast<std::size_t>(pixels.numel())};
}

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

/// Drops further names that two icons claim or that are another's own.
void settle_names(std::vector<Icon>& icons) {
  std::map<std::string, int> claims;
  std::set<std::string> own;
  for (const auto& icon : icons) {
    own.insert(icon.captions.front());
    for (const auto& caption : icon.captions) ++claims[caption];
  }
  for (auto& icon : icons) {
    auto& names = icon.captions;
    names.erase(std::remove_if(names.begin() + 1, names.end(),
                               [&](const std::string& name) { return claims[name] > 1 || own.count(name) > 0; }),
                names.end());
  }
}

std::vector<Icon> collect(const fs::path& theme, std::int64_t size, const std::string& suffix) {
  const fs::path source = theme / fmt::format("{0}x{0}", size);
  std::error_code failed;
  if (!fs::is_directory(source, failed)) {
    throw Error(source.string(), "is not a folder of icons", "install tango-icon-theme, or choose another size");
  }
  ManifestOptions options;
  options.captions = CaptionSource::names;
  const Manifest found = read_manifest(source, options);
  std::vector<Icon> icons;
  std::map<std::string, std::size_t> by_content;
  std::set<std::string> files;
  for (const auto& picture : found.pictures) {
    auto pixels = read_icon(source / picture.file, size);
    const auto [known, added] = by_content.try_emplace(content_of(pixels), icons.size());
    if (added) {
      const fs::path from(picture.file);
      std::string stem = from.stem().string() + suffix;
      // Two contexts may each have an icon of one name.
      if (!files.insert(stem).second) {
        stem += fmt::format(".{}", from.parent_path().filename().string());
        files.insert(stem);
      }
      icons.push_back({stem + ".png", std::move(pixels), {}});
    }
    for (const auto& caption : picture.captions) add_name(icons[known->second].captions, caption.text);
  }
  std::sort(icons.begin(), icons.end(), [](const Icon& a, const Icon& b) { return a.file < b.file; });
  settle_names(icons);
  return icons;
}

std::string row(const Icon& icon, const std::string& caption, const char* split) {
  return nlohmann::json{{"image", icon.file}, {"caption", caption}, {"split", split}}.dump() + "\n";
}

bool same_set(const fs::path& folder, const std::string& mark, const std::string& manifest,
              const std::vector<Icon>& icons) {
  std::error_code failed;
  if (!fs::exists(folder / mark_file, failed) || read_file(folder / mark_file, max_mark_bytes) != mark) return false;
  if (!fs::exists(folder / "manifest.jsonl", failed)) return false;
  if (read_file(folder / "manifest.jsonl", max_image_bytes) != manifest) return false;
  return std::all_of(icons.begin(), icons.end(), [&](const Icon& icon) {
    try {
      return read_image_bytes(folder / icon.file).equal(icon.pixels);
    } catch (const Error&) {
      return false;
    }
  });
}

}  // namespace

IconSet prepare_icons(const fs::path& theme, const fs::path& folder, const IconOptions& options) {
  std::vector<Icon> icons = collect(theme, options.size, "");
  IconSet set{static_cast<std::int64_t>(icons.size()), 0, 0, false};
  std::string manifest;
  std::set<std::string> names;
  for (const auto& icon : icons) {
    names.insert(icon.captions.front());
    for (const auto& caption : icon.captions) manifest += row(icon, caption, "train");
    set.captions += static_cast<std::int64_t>(icon.captions.size());
  }
  if (options.held_out_size > 0) {
    for (auto& icon : collect(theme, options.held_out_size, fmt::format("@{}", options.held_out_size))) {
      if (names.count(icon.captions.front()) == 0) continue;
      manifest += row(icon, icon.captions.front(), "held_out");
      ++set.held_out;
      icons.push_back(std::move(icon));
    }
  }
  const std::string mark = nlohmann::json{{"format", "nestor.icons/1"},
                                          {"size", options.size},
                                          {"held_out_size", options.held_out_size},
                                          {"pictures", set.pictures}}
                               .dump() +
                           "\n";

  std::error_code failed;
  fs::path target = fs::absolute(folder).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  const bool exists = fs::exists(target, failed);
  if (exists && same_set(target, mark, manifest, icons)) return set;
  if (exists && !(fs::is_directory(target) && (fs::exists(target / mark_file) || fs::is_empty(target)))) {
    throw Error(folder.string(), "exists and is no prepared icon set", "choose another folder, or remove it");
  }
  const std::string unique = fmt::format(".part-{}", ::getpid());
  fs::path aside = target, old = target;
  aside += unique;
  old += fmt::format(".old{}", unique);
  const auto check = [&] {
    if (!failed) return;
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    throw Error(folder.string(), "cannot be written: " + failed.message(), "check its rights and the room left");
  };
  fs::create_directories(aside, failed);
  check();
  try {
    for (const auto& icon : icons) write_png(aside / icon.file, icon.pixels);
    replace_file(aside / "manifest.jsonl", manifest);
    replace_file(aside / mark_file, mark);
  } catch (...) {
    fs::remove_all(aside, failed);
    throw;
  }
  if (exists) fs::rename(target, old, failed);
  check();
  fs::rename(aside, target, failed);
  if (failed && exists) {
    std::error_code ignored;
    fs::rename(old, target, ignored);
  }
  check();
  fs::remove_all(old, failed);
  set.made = true;
  return set;
}

}  // namespace nestor::modules
