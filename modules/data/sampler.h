#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <nestor/modules/batch.h>

namespace nestor::modules {

/// Which samples form a step, from (seed, step) alone, so that a resumed run, every lane and every process see the
/// same. Each group of the dataset has its share of every step (exact over any run of sum-of-weights samples) and goes
/// through its own ids in a new random order each epoch, none twice before all have come; `draw` is the epoch. A batch
/// may be larger than the data. Immutable; any thread.
class Sampler {
 public:
  /// `dataset` must outlive it. Throws Error for an empty split, no weight at all, or a batch size below 1.
  Sampler(const Dataset& dataset, Seed seed, std::int64_t batch_size, Split split = Split::train);

  /// (id, draw) of the samples of step `step` >= 0.
  std::vector<std::pair<std::int64_t, std::int32_t>> ids(std::int64_t step) const;
  /// Their descriptors, in the same order.
  std::vector<Sample> step(std::int64_t step) const;

  std::int64_t batch_size() const { return batch_size_; }

 private:
  const Dataset& dataset_;
  Seed seed_;
  std::int64_t batch_size_;
  Split split_;
  std::vector<SampleGroup> groups_;                ///< those with ids and a weight
  std::vector<std::int32_t> pattern_;              ///< the groups of consecutive samples, repeated for ever
  std::vector<std::vector<std::int64_t>> before_;  ///< by group: its samples in the pattern before a position
};

/// Every sample of a split once, in order, as microbatches of at most `size` samples of one group each: what an
/// evaluation reads. `limit`: at most so many samples of each group, 0 for all.
std::vector<Microbatch> sweep(const Dataset& dataset, Split split, std::int64_t size, std::int64_t limit = 0);

}  // namespace nestor::modules
