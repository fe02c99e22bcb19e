#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nestor/modules/batch.h>

namespace nestor::modules {

/// Where the captions of an image folder come from.
enum class CaptionSource : std::uint8_t {
  automatic,  ///< table if there is one, else sidecars where they exist and names elsewhere
  names,      ///< "edit-find-replace.png" is "edit find replace"
  sidecars,   ///< NAME.txt beside NAME.png, a caption a line
  table       ///< manifest.jsonl or captions.tsv in the folder's root
};

struct ManifestOptions {
  CaptionSource captions = CaptionSource::automatic;
  /// A symbolic link to another picture of the folder names that picture once more; otherwise it is passed over.
  bool links_are_captions = true;
};

struct Caption {
  std::string text;
  Split split = Split::train;
  bool operator==(const Caption&) const = default;
};

struct Picture {
  std::string file;               ///< relative to the folder, '/' between its parts
  std::vector<Caption> captions;  ///< the picture's own first; at least one
  bool operator==(const Picture&) const = default;
};

/// The pictures of a folder and what they show. No picture is opened.
struct Manifest {
  std::filesystem::path folder;
  std::vector<Picture> pictures;  ///< by file name in byte order; a table's in its own order
  bool explicit_splits = false;   ///< a table said which rows are held out
};

/// Reads a folder, with all below it but hidden entries.
/// `manifest.jsonl`: a line {"image": FILE, "caption": TEXT, "split": "train" | "held_out"} for each caption, split
/// being optional, blank lines allowed; more lines of one image are more captions of it. `captions.tsv`: FILE, a tab,
/// TEXT. Files are relative to the folder and stay inside.
/// Throws Error "FILE:LINE: WHAT (HINT)": a missing folder, no picture in it, two tables, an unknown key, a repeated
/// row, a missing file, a dangling link, text that is not UTF-8.
Manifest read_manifest(const std::filesystem::path& folder, const ManifestOptions& options = {});

/// Drops all but the first caption of each picture.
void keep_first_captions(Manifest& manifest);

/// "edit-find_replace.png" → "edit find replace".
std::string caption_from_name(const std::filesystem::path& file);

/// Whether the text is well-formed UTF-8.
bool is_utf8(std::string_view text);

}  // namespace nestor::modules
