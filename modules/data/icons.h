#pragma once

#include <cstdint>
#include <filesystem>

namespace nestor::modules {

struct IconOptions {
  std::int64_t size = 32;          ///< side in pixels of the icons to train on
  std::int64_t held_out_size = 0;  ///< the same icons as drawn for another size, as held-out rows; 0: none
};

struct IconSet {
  std::int64_t pictures = 0;  ///< distinct icons of `size`
  std::int64_t captions = 0;  ///< rows of the manifest that train
  std::int64_t held_out = 0;  ///< rows that are held out
  bool made = false;          ///< false: it was there already
};

/// Turns an installed icon theme (THEME/32x32/CONTEXT/NAME.png, links naming an icon once more) into an image folder
/// with a manifest: every distinct icon of one size, opaque on white, flat, captioned by its own name first and then by
/// the names of its links. Icons of equal pixels are one picture; a further name that two pictures claim is left out;
/// of an animation (a sheet of frames) the first frame that shows anything is taken. Themes draw an icon anew for each
/// size, so icons of another size test reading without any new word. Nothing in the folder tells where it came from.
///
/// Idempotent: an equal set is left as it is, an older one of ours is replaced, any other folder is refused. Made aside
/// and renamed whole. Throws Error: no such theme or size, a folder in the way, a picture that cannot be read.
IconSet prepare_icons(const std::filesystem::path& theme, const std::filesystem::path& folder,
                      const IconOptions& options = {});

}  // namespace nestor::modules
