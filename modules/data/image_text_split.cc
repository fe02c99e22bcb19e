#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>

#include <nestor/modules/data/image_text_split.h>
#include <nestor/modules/error.h>
#include <nestor/modules/seed.h>

namespace nestor::modules {
namespace {

std::size_t amount(double share_or_count, std::size_t total) {
  const double wanted = share_or_count < 1 ? std::round(share_or_count * static_cast<double>(total)) : share_or_count;
  return wanted >= static_cast<double>(total) ? total : static_cast<std::size_t>(wanted);
}

struct Candidate {
  std::uint64_t hash;
  SplitItem item;
};

/// The `count` candidates of the smallest hash.
std::set<std::pair<std::int32_t, std::int32_t>> choose(std::vector<Candidate> candidates, std::size_t count) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.hash, a.item.picture, a.item.caption) < std::tie(b.hash, b.item.picture, b.item.caption);
  });
  std::set<std::pair<std::int32_t, std::int32_t>> chosen;
  for (std::size_t i = 0; i < count; ++i) chosen.emplace(candidates[i].item.picture, candidates[i].item.caption);
  return chosen;
}

}  // namespace

SplitItems divide(const Manifest& manifest, double pictures, double captions) {
  if (manifest.explicit_splits && (pictures > 0 || captions > 0)) {
    throw Error(manifest.folder.string(), "its table says already what is held out", "remove data.held_out");
  }
  const Seed base = Seed(0).child("held out");
  const auto total = static_cast<std::int32_t>(manifest.pictures.size());
  std::vector<Candidate> candidates;
  for (std::int32_t p = 0; p < total; ++p) {
    candidates.push_back({base.child(manifest.pictures[static_cast<std::size_t>(p)].file).value(), {p, 0}});
  }
  const auto out = choose(candidates, amount(pictures, candidates.size()));

  candidates.clear();
  for (std::int32_t p = 0; p < total; ++p) {
    const auto& picture = manifest.pictures[static_cast<std::size_t>(p)];
    for (std::size_t c = 1; c < picture.captions.size() && !out.count({p, 0}); ++c) {
      candidates.push_back(
          {base.child(picture.file).child(picture.captions[c].text).value(), {p, static_cast<std::int32_t>(c)}});
    }
  }
  const auto out_captions = choose(candidates, amount(captions, candidates.size()));

  SplitItems items;
  items.alternatives.resize(manifest.pictures.size());
  for (std::int32_t p = 0; p < total; ++p) {
    const auto& all = manifest.pictures[static_cast<std::size_t>(p)].captions;
    auto& alternatives = items.alternatives[static_cast<std::size_t>(p)];
    std::vector<SplitItem> kept;
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(all.size()); ++c) {
      const bool held = all[static_cast<std::size_t>(c)].split == Split::held_out || out_captions.count({p, c}) > 0;
      if (held) {
        kept.push_back({p, c});
      } else {
        alternatives.push_back(c);
      }
    }
    if (out.count({p, 0}) || alternatives.empty()) {
      alternatives.clear();
      items.held_out.push_back({p, 0});
    } else {
      items.train.push_back({p, alternatives.front()});
      items.held_out_captions.insert(items.held_out_captions.end(), kept.begin(), kept.end());
    }
  }
  if (items.train.empty()) {
    throw Error(manifest.folder.string(), "all its pictures are held out", "hold out fewer");
  }
  return items;
}

}  // namespace nestor::modules
