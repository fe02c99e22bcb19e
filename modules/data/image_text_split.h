#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <nestor/modules/data/manifest.h>

namespace nestor::modules {

/// One thing to learn or to be tested on: a picture by one of its captions, or by any of its training captions.
struct SplitItem {
  std::int32_t picture = 0;
  std::int32_t caption = 0;  ///< index in the picture's captions
};

/// Which pictures and captions train and which are held out.
struct SplitItems {
  std::vector<SplitItem> train;                         ///< a picture each, by its first training caption
  std::vector<SplitItem> held_out;                      ///< held-out pictures, by their first caption
  std::vector<SplitItem> held_out_captions;             ///< held-out captions of training pictures
  std::vector<std::vector<std::int32_t>> alternatives;  ///< by picture: its training captions, the first one first
};

/// Divides by the hash of file name and caption, the smallest first, so that neither seed nor order matters. `pictures`
/// and `captions`: a share below 1, else a count. Throws Error where nothing would be left to train on, or where a
/// table has said already what is held out.
SplitItems divide(const Manifest& manifest, double pictures, double captions);

}  // namespace nestor::modules
