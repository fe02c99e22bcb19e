#include <algorithm>
#include <limits>

#include <nestor/modules/data/random.h>
#include <nestor/modules/data/sampler.h>
#include <nestor/modules/error.h>

namespace nestor::modules {
namespace {

constexpr std::int64_t max_weight = 10'000;

/// Smooth weighted round robin: each group as evenly spread as its weight allows.
std::vector<std::int32_t> spread(const std::vector<SampleGroup>& groups, std::int64_t total) {
  std::vector<std::int64_t> credit(groups.size(), 0);
  std::vector<std::int32_t> pattern;
  for (std::int64_t i = 0; i < total; ++i) {
    for (std::size_t g = 0; g < groups.size(); ++g) credit[g] += groups[g].weight;
    const auto next = std::max_element(credit.begin(), credit.end()) - credit.begin();
    credit[static_cast<std::size_t>(next)] -= total;
    pattern.push_back(static_cast<std::int32_t>(next));
  }
  return pattern;
}

}  // namespace

Sampler::Sampler(const Dataset& dataset, Seed seed, std::int64_t batch_size, Split split)
    : dataset_(dataset), seed_(seed.child("sampler")), batch_size_(batch_size), split_(split) {
  if (batch_size < 1) throw Error("batch", "has no sample", "give the schedule microbatches of at least one sample");
  std::int64_t total = 0;
  for (const auto& group : dataset.groups(split)) {
    if (group.weight < 0 || group.weight > max_weight) {
      throw Error("group " + group.name, "has the weight " + std::to_string(group.weight),
                  "0 to " + std::to_string(max_weight));
    }
    if (group.size == 0 || group.weight == 0) continue;
    groups_.push_back(group);
    total += group.weight;
  }
  if (groups_.empty()) throw Error("data", "has no sample to train on", "check data.path and data.held_out");
  pattern_ = spread(groups_, total);
  before_.assign(groups_.size(), {0});
  for (const std::int32_t group : pattern_) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      before_[g].push_back(before_[g].back() + (static_cast<std::int32_t>(g) == group ? 1 : 0));
    }
  }
}

std::vector<std::pair<std::int64_t, std::int32_t>> Sampler::ids(std::int64_t step) const {
  if (step < 0 || step > std::numeric_limits<std::int64_t>::max() / batch_size_ - 1) {
    throw Error("step " + std::to_string(step), "is out of range", "steps count from 0");
  }
  std::vector<std::pair<std::int64_t, std::int32_t>> ids;
  const auto period = static_cast<std::int64_t>(pattern_.size());
  for (std::int64_t position = step * batch_size_; position < (step + 1) * batch_size_; ++position) {
    const auto offset = static_cast<std::size_t>(position % period);
    const auto g = static_cast<std::size_t>(pattern_[offset]);
    const SampleGroup& group = groups_[g];
    const std::int64_t taken = position / period * before_[g].back() + before_[g][offset];
    const std::int64_t epoch = taken / group.size;
    const Seed order = seed_.child(group.name).child(epoch);
    ids.emplace_back(group.first + permuted_index(order, taken % group.size, group.size),
                     static_cast<std::int32_t>(epoch % std::numeric_limits<std::int32_t>::max()));
  }
  return ids;
}

std::vector<Sample> Sampler::step(std::int64_t step) const {
  std::vector<Sample> samples;
  for (const auto& [id, draw] : ids(step)) samples.push_back(dataset_.describe(split_, id, draw));
  return samples;
}

std::vector<Microbatch> sweep(const Dataset& dataset, Split split, std::int64_t size, std::int64_t limit) {
  std::vector<Microbatch> microbatches;
  for (const auto& group : dataset.groups(split)) {
    const std::int64_t count = limit > 0 ? std::min(limit, group.size) : group.size;
    for (std::int64_t i = 0; i < count; ++i) {
      if (i % std::max<std::int64_t>(1, size) == 0) {
        microbatches.push_back({0, static_cast<std::int32_t>(microbatches.size()), {}});
      }
      microbatches.back().samples.push_back(dataset.describe(split, group.first + i, 0));
    }
  }
  return microbatches;
}

}  // namespace nestor::modules
