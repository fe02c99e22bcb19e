#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include <nestor/modules/data/random.h>
#include <nestor/modules/data/sampler.h>
#include <nestor/modules/data/synthetic.h>

#include "data_testing.h"

namespace nestor::modules {
namespace {

using testing::error_of;

/// Samples that are numbers, in groups of given sizes and weights.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::vector<std::pair<std::int64_t, std::int32_t>> groups) {
    for (const auto& [size, weight] : groups) {
      groups_.push_back({std::string(groups_.size() + 1, 'g'), size_, size, weight});
      size_ += size;
    }
  }
  std::int64_t size(Split) const override { return size_; }
  Sample describe(Split split, std::int64_t id, std::int32_t draw) const override { return {id, draw, split, {}}; }
  Tensor read(std::string_view, const Microbatch&) const override { return {}; }
  std::vector<SampleGroup> groups(Split) const override { return groups_; }

 private:
  std::vector<SampleGroup> groups_;
  std::int64_t size_ = 0;
};

TEST(DataRandom, PermutationsArePermutations) {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 215, 1000, 4096, 65537}) {
    std::set<std::int64_t> seen;
    std::int64_t fixed = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const auto to = permuted_index(Seed(5), i, size);
      EXPECT_GE(to, 0);
      EXPECT_LT(to, size);
      seen.insert(to);
      fixed += to == i ? 1 : 0;
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), size);
    EXPECT_LT(fixed, std::max<std::int64_t>(size > 5 ? 10 : 6, 1));
  }
  EXPECT_LT(permuted_index(Seed(5), 123, std::int64_t{1} << 40), std::int64_t{1} << 40);
}

TEST(DataRandom, FirstPlaceIsUniform) {
  std::map<std::int64_t, int> first;
  for (int seed = 0; seed < 6000; ++seed) ++first[permuted_index(Seed(1).child(seed), 0, 6)];
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_NEAR(first[i], 1000, 150);
}

TEST(DataRandom, StreamsAreFixedForEver) {
  RandomStream random(Seed(1));
  EXPECT_EQ(random.next(), 0x910a2dec89025cc1ULL);
  EXPECT_EQ(random.next(), 0xbeeb8da1658eec67ULL);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.below(3), 3);
    EXPECT_LT(random.uniform(), 1.0);
  }
}

TEST(DataSampler, EveryIdOnceAnEpoch) {
  const Numbers data({{10, 1}});
  for (const std::int64_t batch : {1, 3, 7, 10, 25}) {
    const Sampler sampler(data, Seed(1), batch);
    std::vector<std::pair<std::int64_t, std::int32_t>> all;
    for (std::int64_t step = 0; static_cast<std::int64_t>(all.size()) < 100; ++step) {
      const auto ids = sampler.ids(step);
      EXPECT_EQ(static_cast<std::int64_t>(ids.size()), batch);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    std::set<std::vector<std::int64_t>> orders;
    for (std::int32_t epoch = 0; epoch < 10; ++epoch) {
      std::set<std::int64_t> seen;
      std::vector<std::int64_t> order;
      for (std::size_t i = 0; i < 10; ++i) {
        const auto& [id, draw] = all[static_cast<std::size_t>(epoch) * 10 + i];
        EXPECT_EQ(draw, epoch);
        seen.insert(id);
        order.push_back(id);
      }
      EXPECT_EQ(seen.size(), 10U);
      orders.insert(order);
    }
    EXPECT_EQ(orders.size(), 10U);
  }
}

TEST(DataSampler, TheBatchSizeDoesNotChangeTheOrder) {
  const Numbers data({{7, 2}, {5, 1}});
  std::vector<std::pair<std::int64_t, std::int32_t>> small, large;
  const Sampler by_three(data, Seed(9), 3), by_twelve(data, Seed(9), 12);
  for (std::int64_t step = 0; step < 8; ++step) {
    const auto ids = by_three.ids(step);
    small.insert(small.end(), ids.begin(), ids.end());
  }
  for (std::int64_t step = 0; step < 2; ++step) {
    const auto ids = by_twelve.ids(step);
    large.insert(large.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(small, large);
}

TEST(DataSampler, GroupsKeepTheirShare) {
  const Numbers data({{100, 3}, {4, 1}, {50, 0}, {0, 5}});
  const Sampler sampler(data, Seed(1), 8);
  for (std::int64_t step = 0; step < 50; ++step) {
    std::int64_t first = 0, second = 0;
    for (const auto& [id, draw] : sampler.ids(step)) {
      first += id < 100 ? 1 : 0;
      second += id >= 100 && id < 104 ? 1 : 0;
    }
    EXPECT_EQ(first, 6);
    EXPECT_EQ(second, 2);
  }
}

TEST(DataSampler, AnyStepIsReachedAtOnce) {
  const Numbers data({{1000, 1}});
  const Sampler sampler(data, Seed(1), 16);
  const auto ids = sampler.ids(1'000'000'000);
  EXPECT_EQ(ids.size(), 16U);
  EXPECT_EQ(ids, Sampler(data, Seed(1), 16).ids(1'000'000'000));
  EXPECT_NE(ids, Sampler(data, Seed(2), 16).ids(1'000'000'000));
}

TEST(DataSampler, FixedForEver) {
  const Numbers data({{10, 1}, {10, 1}});
  const Sampler sampler(data, Seed(1), 8);
  const auto ids = [&](std::int64_t step) {
    std::vector<std::int64_t> found;
    for (const auto& [id, draw] : sampler.ids(step)) found.push_back(id);
    return found;
  };
  EXPECT_EQ(ids(0), (std::vector<std::int64_t>{2, 19, 9, 16, 3, 13, 7, 15}));
  EXPECT_EQ(ids(7), (std::vector<std::int64_t>{1, 18, 9, 11, 3, 17, 4, 16}));
}

TEST(DataSampler, DescribesWhatItDrew) {
  SyntheticOptions options;
  options.samples = 5;
  const SyntheticDataset data(options);
  const Sampler sampler(data, Seed(1), 12);
  const auto samples = sampler.step(3);
  const auto ids = sampler.ids(3);
  ASSERT_EQ(samples.size(), 12U);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].id, ids[i].first);
    EXPECT_EQ(samples[i].draw, ids[i].second);
    EXPECT_EQ(samples[i].counts, data.describe(Split::train, ids[i].first, ids[i].second).counts);
  }
}

TEST(DataSampler, SweepsEachGroupByItself) {
  const Numbers data({{5, 1}, {3, 1}, {0, 1}});
  const auto all = sweep(data, Split::held_out, 4);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].samples.size(), 4U);
  EXPECT_EQ(all[1].samples.size(), 1U);
  EXPECT_EQ(all[2].samples.size(), 3U);
  EXPECT_EQ(all[2].samples[0].id, 5);
  EXPECT_EQ(all[2].index, 2);
  const auto some = sweep(data, Split::train, 4, 2);
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0].samples.size(), 2U);
}

TEST(DataSampler, ImpossibleRequests) {
  const Numbers data({{5, 1}}), none({{0, 1}}), weightless({{5, 0}}), negative({{5, -1}});
  error_of([&] { Sampler(data, Seed(1), 0); });
  error_of([&] { Sampler(none, Seed(1), 1); });
  error_of([&] { Sampler(weightless, Seed(1), 1); });
  error_of([&] { Sampler(negative, Seed(1), 1); });
  error_of([&] { Sampler(data, Seed(1), 4).ids(-1); });
  error_of([&] { Sampler(data, Seed(1), 4).ids(std::numeric_limits<std::int64_t>::max()); });
}

}  // namespace
}  // namespace nestor::modules
