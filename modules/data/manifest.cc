#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include <nestor/modules/data/files.h>
#include <nestor/modules/data/manifest.h>
#include <nestor/modules/error.h>

namespace nestor::modules {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t max_table_bytes = std::int64_t{1} << 30;
constexpr std::int64_t max_sidecar_bytes = 1 << 20;

bool is_picture_name(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// Calls visit(line, number from 1) for each line that is not blank.
void for_each_line(std::string_view content, const std::function<void(std::string_view, std::int64_t)>& visit) {
  for (std::int64_t number = 1; !content.empty(); ++number) {
    const auto end = content.find('\n');
    const auto line = content.substr(0, end);
    if (!trimmed(line).empty()) visit(line, number);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
  }
}

// ---- tables ---------------------------------------------------------------------------------------------------------

struct Row {
  std::string file, caption;
  std::optional<Split> split;
};

Row json_row(std::string_view line, const std::string& where) {
  const auto hint = R"(a line is {"image": FILE, "caption": TEXT, "split": "train" or "held_out"})";
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception&) {
    throw Error(where, "is not a JSON object", hint);
  }
  if (!document.is_object()) throw Error(where, "is not a JSON object", hint);
  for (const auto& [key, value] : document.items()) {
    if (key != "image" && key != "caption" && key != "split") throw Error(where, "unknown key \"" + key + "\"", hint);
    if (!value.is_string()) throw Error(where, "\"" + key + "\" is not a text", hint);
  }
  if (!document.contains("image") || !document.contains("caption")) {
    throw Error(where, "\"image\" or \"caption\" is missing", hint);
  }
  Row row{document["image"], document["caption"], {}};
  if (document.contains("split")) {
    const std::string split = document["split"];
    if (split != "train" && split != "held_out") throw Error(where, "unknown split \"" + split + "\"", hint);
    row.split = split == "train" ? Split::train : Split::held_out;
  }
  return row;
}

Row tab_row(std::string_view line, const std::string& where) {
  const auto tab = line.find('\t');
  if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos) {
    throw Error(where, "has not exactly one tab", "a line is FILE, a tab, TEXT");
  }
  return {std::string(trimmed(line.substr(0, tab))), std::string(trimmed(line.substr(tab + 1))), {}};
}

void check_row(const Row& row, const fs::path& folder, const std::string& where) {
  if (!is_utf8(row.file) || !is_utf8(row.caption)) throw Error(where, "is not UTF-8", "convert the file");
  if (trimmed(row.caption).empty()) throw Error(where, "the caption is empty", "say what the picture shows");
  const fs::path file(row.file);
  const auto normal = file.lexically_normal();
  if (row.file.empty() || file.is_absolute() || *normal.begin() == "..") {
    throw Error(where, "\"" + row.file + "\" does not lie in the folder", "name files relative to the folder");
  }
  std::error_code failed;
  if (!fs::is_regular_file(folder / file, failed)) {
    throw Error(where, "\"" + row.file + "\" is not a file of the folder", "check the name, or remove the line");
  }
}

Manifest read_table(const fs::path& folder, const fs::path& table) {
  Manifest manifest{folder, {}, false};
  std::map<std::string, std::size_t> index;
  std::set<std::pair<std::string, std::string>> seen;
  const bool json = table.extension() == ".jsonl";
  for_each_line(read_file(table, max_table_bytes), [&](std::string_view line, std::int64_t number) {
    const std::string where = table.string() + ":" + std::to_string(number);
    Row row = json ? json_row(line, where) : tab_row(line, where);
    check_row(row, folder, where);
    row.file = fs::path(row.file).lexically_normal().generic_string();
    if (!seen.emplace(row.file, row.caption).second) {
      throw Error(where, "\"" + row.file + "\" has this caption already", "remove the line");
    }
    const auto [found, added] = index.try_emplace(row.file, manifest.pictures.size());
    if (added) manifest.pictures.push_back({row.file, {}});
    manifest.pictures[found->second].captions.push_back({row.caption, row.split.value_or(Split::train)});
    manifest.explicit_splits |= row.split.has_value();
  });
  if (manifest.pictures.empty()) throw Error(table.string(), "names no picture", "a line for each caption");
  return manifest;
}

// ---- folders --------------------------------------------------------------------------------------------------------

struct Found {
  std::vector<fs::path> files;  ///< relative, in byte order
  std::vector<fs::path> links;
};

Found scan(const fs::path& folder) {
  Found found;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) {
    const fs::path& path = entry->path();
    if (path.filename().string().front() == '.') {
      if (entry->is_directory()) entry.disable_recursion_pending();
      continue;
    }
    if (!is_picture_name(path)) continue;
    const bool link = entry->is_symlink();
    if (!link && entry->is_directory()) continue;
    (link ? found.links : found.files).push_back(path.lexically_relative(folder));
  }
  if (failed) throw Error(folder.string(), "cannot be read: " + failed.message(), "check its rights");
  const auto by_bytes = [](const fs::path& a, const fs::path& b) { return a.generic_string() < b.generic_string(); };
  std::sort(found.files.begin(), found.files.end(), by_bytes);
  std::sort(found.links.begin(), found.links.end(), by_bytes);
  return found;
}

std::vector<Caption> captions_of(const fs::path& path, CaptionSource source) {
  fs::path sidecar = path;
  sidecar.replace_extension(".txt");
  std::error_code failed;
  const bool exists = fs::exists(sidecar, failed);
  std::vector<Caption> captions;
  if (source == CaptionSource::sidecars || (source == CaptionSource::automatic && exists)) {
    if (!exists) throw Error(path.string(), "has no caption", "write it to " + sidecar.filename().string());
    for_each_line(read_file(sidecar, max_sidecar_bytes), [&](std::string_view line, std::int64_t number) {
      const std::string where = sidecar.string() + ":" + std::to_string(number);
      if (!is_utf8(line)) throw Error(where, "is not UTF-8", "convert the file");
      captions.push_back({std::string(trimmed(line)), Split::train});
    });
    if (captions.empty()) throw Error(sidecar.string(), "is empty", "say what the picture shows");
  } else {
    const std::string caption = caption_from_name(path);
    if (!is_utf8(caption)) throw Error(path.string(), "its name is not UTF-8", "rename it");
    if (caption.empty()) throw Error(path.string(), "its name says nothing", "rename it or write a sidecar");
    captions.push_back({caption, Split::train});
  }
  return captions;
}

fs::path real_path(const fs::path& path) {
  std::error_code failed;
  auto real = fs::canonical(path, failed);
  if (failed) throw Error(path.string(), "is a link to nothing", "remove it");
  return real;
}

void add_caption(Picture& picture, const Caption& caption) {
  const auto& have = picture.captions;
  if (std::find(have.begin(), have.end(), caption) == have.end()) picture.captions.push_back(caption);
}

Manifest read_folder(const fs::path& folder, const ManifestOptions& options) {
  Manifest manifest{folder, {}, false};
  const Found found = scan(folder);
  std::map<fs::path, std::size_t> index;  // by real path
  const auto add = [&](const fs::path& relative, const fs::path& real) {
    index.emplace(real, manifest.pictures.size());
    manifest.pictures.push_back({relative.generic_string(), captions_of(folder / relative, options.captions)});
  };
  for (const auto& file : found.files) add(file, real_path(folder / file));
  for (const auto& link : found.links) {
    const auto real = real_path(folder / link);
    if (!fs::is_regular_file(real)) throw Error((folder / link).string(), "is a link to no file", "remove it");
    const auto target = index.find(real);
    if (target == index.end()) {
      add(link, real);  // a picture that lies elsewhere
    } else if (options.links_are_captions) {
      for (const auto& caption : captions_of(folder / link, options.captions)) {
        add_caption(manifest.pictures[target->second], caption);
      }
    }
  }
  std::sort(manifest.pictures.begin(), manifest.pictures.end(),
            [](const Picture& a, const Picture& b) { return a.file < b.file; });
  if (manifest.pictures.empty()) throw Error(folder.string(), "holds no PNG or JPEG", "check data.path");
  return manifest;
}

}  // namespace

void keep_first_captions(Manifest& manifest) {
  for (auto& picture : manifest.pictures) picture.captions.erase(picture.captions.begin() + 1, picture.captions.end());
}

std::string caption_from_name(const fs::path& file) {
  std::string caption;
  for (const char c : file.stem().string()) {
    const bool separator = c == '-' || c == '_' || c == ' ' || c == '.';
    if (!separator) {
      caption += c;
    } else if (!caption.empty() && caption.back() != ' ') {
      caption += ' ';
    }
  }
  return std::string(trimmed(caption));
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t bytes = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
    if (bytes == 0 || lead > 0xf4 || i + bytes > text.size()) return false;
    std::uint32_t code = bytes == 1 ? lead : lead & (0x7fU >> bytes);
    for (std::size_t k = 1; k < bytes; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    constexpr std::array<std::uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += bytes;
  }
  return true;
}

Manifest read_manifest(const fs::path& folder, const ManifestOptions& options) {
  std::error_code failed;
  if (!fs::exists(folder, failed)) throw Error(folder.string(), "does not exist", "check data.path");
  if (!fs::is_directory(folder, failed)) throw Error(folder.string(), "is not a folder", "check data.path");
  const fs::path json = folder / "manifest.jsonl", tabs = folder / "captions.tsv";
  const bool has_json = fs::exists(json, failed), has_tabs = fs::exists(tabs, failed);
  if (options.captions == CaptionSource::table ||
      (options.captions == CaptionSource::automatic && has_json + has_tabs)) {
    if (has_json && has_tabs) {
      throw Error(folder.string(), "has both manifest.jsonl and captions.tsv", "keep one of them");
    }
    if (!has_json && !has_tabs) {
      throw Error(folder.string(), "has neither manifest.jsonl nor captions.tsv", "write one, or use captions: names");
    }
    return read_table(folder, has_json ? json : tabs);
  }
  return read_folder(folder, options);
}

}  // namespace nestor::modules
