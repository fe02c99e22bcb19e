#pragma once

#include <cstdint>
#include <filesystem>

namespace nestor::launch {

struct IconOptions {
  std::filesystem::path theme = "/usr/share/icons/Tango";  ///< where Debian's tango-icon-theme puts it
  std::filesystem::path output = "data/icons";
};

struct IconCount {
  std::int64_t pictures = 0;
  std::int64_t captions = 0;  ///< names that are links to one of the pictures
};

/// Copies the theme's PNG files, a folder per size ("32x32"), links as links: a link is a further caption of its
/// picture. Made aside and renamed, so that a half-made set is never found. Throws InputError where there is no theme.
IconCount prepare_icons(const IconOptions& options);

}  // namespace nestor::launch
