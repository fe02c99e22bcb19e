#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include <nestor/scheduler/batching.h>
#include <nestor/scheduler/error.h>

namespace nestor::scheduler {
namespace {

/// Samples that share microbatches, and how many of those they get.
struct Class {
  std::vector<std::int32_t> samples;  ///< costliest first
  std::int32_t groups = 0;
};

/// Every kind of cost as a share of the batch's own total of that kind, so that kinds are comparable.
class Loads {
 public:
  explicit Loads(std::span<const SampleCost> samples) : samples_(samples) {
    for (const auto& sample : samples) kinds_ = std::max(kinds_, sample.pools.size() + 1);
    std::vector<double> total(kinds_, 0);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      check(samples[i].llm, i);
      total[0] += samples[i].llm;
      for (std::size_t k = 0; k < samples[i].pools.size(); ++k) {
        check(samples[i].pools[k], i);
        total[k + 1] += samples[i].pools[k];
      }
    }
    for (double t : total) weight_.push_back(t > 0 ? 1 / t : 0);
  }
  std::size_t kinds() const { return kinds_; }
  double share(std::int32_t sample, std::size_t kind) const {
    const SampleCost& cost = samples_[static_cast<std::size_t>(sample)];
    if (kind == 0) return cost.llm * weight_[0];
    return kind <= cost.pools.size() ? cost.pools[kind - 1] * weight_[kind] : 0;
  }
  double sum(std::int32_t sample) const {
    double sum = 0;
    for (std::size_t k = 0; k < kinds_; ++k) sum += share(sample, k);
    return sum;
  }
  std::vector<bool> modalities(std::int32_t sample) const {
    std::vector<bool> has(kinds_ - 1, false);
    const auto& pools = samples_[static_cast<std::size_t>(sample)].pools;
    for (std::size_t k = 0; k < pools.size(); ++k) has[k] = pools[k] > 0;
    return has;
  }

 private:
  static void check(double cost, std::size_t sample) {
    if (!std::isfinite(cost) || cost < 0)
      throw Error("samples[" + std::to_string(sample) + "]", "a cost of " + std::to_string(cost),
                  "costs are finite and not negative");
  }
  std::span<const SampleCost> samples_;
  std::size_t kinds_ = 1;
  std::vector<double> weight_;
};

std::int32_t needed(std::size_t samples, std::int32_t group_size) {
  return static_cast<std::int32_t>((samples + static_cast<std::size_t>(group_size) - 1) /
                                   static_cast<std::size_t>(group_size));
}

/// Where the classes need more groups than there are, what would not fill a group of its own shares groups with the
/// like of other classes: the smallest remainders first, no more of them than it takes.
void mix_remainders(std::vector<Class>& classes, std::int32_t groups, std::int32_t group_size) {
  const std::size_t full = static_cast<std::size_t>(group_size);
  auto total = [&] {
    return std::accumulate(classes.begin(), classes.end(), 0, [&](std::int32_t sum, const Class& c) {
      return sum + needed(c.samples.size(), group_size);
    });
  };
  if (total() <= groups) return;
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return classes[a].samples.size() % full < classes[b].samples.size() % full;
  });
  classes.emplace_back();  // the mixed class
  for (std::size_t c : order) {
    auto& own = classes[c].samples;
    const auto rest = static_cast<std::ptrdiff_t>(own.size() % full);
    if (rest == 0) continue;
    const auto middle = (static_cast<std::ptrdiff_t>(own.size()) - rest) / 2;  // neither the costliest nor the cheapest
    const auto first = own.begin() + middle;
    auto& mixed = classes.back().samples;
    mixed.insert(mixed.end(), first, first + rest);
    own.erase(first, first + rest);
    if (total() <= groups) break;
  }
}

/// Costliest first, each to the group where the fullest kind of cost stays lowest.
void fill(const Class& samples, std::int32_t group_size, const Loads& loads,
          std::vector<std::vector<std::int32_t>>& out) {
  const std::size_t first = out.size(), count = static_cast<std::size_t>(samples.groups), kinds = loads.kinds();
  out.resize(first + count);
  std::vector<double> load(count * kinds, 0);
  for (std::size_t placed = 0; placed < samples.samples.size(); ++placed) {
    const std::int32_t sample = samples.samples[placed];
    std::size_t chosen = count;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < count; ++g) {
      const auto& group = out[first + g];
      if (group.size() >= static_cast<std::size_t>(group_size)) continue;
      double peak = 0;
      for (std::size_t k = 0; k < kinds; ++k) peak = std::max(peak, load[g * kinds + k] + loads.share(sample, k));
      const bool better =
          chosen == count ||
          (placed < count ? group.size() < out[first + chosen].size()
                          : peak < lowest || (peak == lowest && group.size() < out[first + chosen].size()));
      if (better) chosen = g, lowest = peak;
    }
    out[first + chosen].push_back(sample);
    for (std::size_t k = 0; k < kinds; ++k) load[chosen * kinds + k] += loads.share(sample, k);
  }
  for (std::size_t g = first; g < out.size(); ++g) std::sort(out[g].begin(), out[g].end());
}

}  // namespace

std::vector<std::vector<std::int32_t>> group_samples(std::span<const SampleCost> samples, std::int32_t microbatches,
                                                     std::int32_t group_size) {
  if (microbatches < 1) throw Error("microbatches", "is " + std::to_string(microbatches), "at least 1");
  if (group_size < 1) throw Error("microbatch_size", "is " + std::to_string(group_size), "at least 1");
  const auto shape = std::to_string(samples.size()) + " samples for " + std::to_string(microbatches) +
                     " microbatches of up to " + std::to_string(group_size);
  if (samples.size() > static_cast<std::size_t>(microbatches) * static_cast<std::size_t>(group_size))
    throw Error("microbatches", shape, "raise microbatches or microbatch_size");
  if (samples.size() < static_cast<std::size_t>(microbatches))
    throw Error("microbatches", shape, "a microbatch needs a sample: lower microbatches");

  const Loads loads(samples);
  std::map<std::vector<bool>, Class, std::greater<>> by_modalities;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto sample = static_cast<std::int32_t>(i);
    by_modalities[loads.modalities(sample)].samples.push_back(sample);
  }
  std::vector<double> sums(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) sums[i] = loads.sum(static_cast<std::int32_t>(i));
  auto costlier = [&](std::int32_t a, std::int32_t b) {
    return sums[static_cast<std::size_t>(a)] > sums[static_cast<std::size_t>(b)];
  };
  std::vector<Class> classes;
  for (auto& [modalities, members] : by_modalities) {
    std::stable_sort(members.samples.begin(), members.samples.end(), costlier);
    classes.push_back(std::move(members));
  }
  mix_remainders(classes, microbatches, group_size);
  std::stable_sort(classes.back().samples.begin(), classes.back().samples.end(), costlier);

  std::int32_t spare = microbatches;
  std::vector<double> work(classes.size(), 0);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    classes[c].groups = needed(classes[c].samples.size(), group_size);
    spare -= classes[c].groups;
    for (std::int32_t sample : classes[c].samples) work[c] += sums[static_cast<std::size_t>(sample)];
  }
  for (; spare > 0; --spare) {  // to the class whose groups are heaviest; there are samples enough for one each
    std::size_t heaviest = classes.size();
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (static_cast<std::size_t>(classes[c].groups) >= classes[c].samples.size()) continue;
      if (heaviest == classes.size() || work[c] / classes[c].groups > work[heaviest] / classes[heaviest].groups)
        heaviest = c;
    }
    ++classes[heaviest].groups;
  }
  std::vector<std::vector<std::int32_t>> groups;
  for (const Class& c : classes)
    if (c.groups > 0) fill(c, group_size, loads, groups);
  return groups;
}

}  // namespace nestor::scheduler
