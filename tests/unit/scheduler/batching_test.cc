#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <nestor/scheduler/batching.h>
#include <nestor/scheduler/error.h>

namespace nestor::scheduler {
namespace {

using Groups = std::vector<std::vector<std::int32_t>>;

void expect_every_sample_once(const Groups& groups, std::size_t samples, std::size_t group_size) {
  std::vector<int> seen(samples, 0);
  for (const auto& group : groups) {
    ASSERT_FALSE(group.empty());
    ASSERT_LE(group.size(), group_size);
    ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
    for (std::int32_t sample : group) ++seen[static_cast<std::size_t>(sample)];
  }
  for (int count : seen) ASSERT_EQ(count, 1);
}

int mixed_groups(const std::vector<SampleCost>& samples, const Groups& groups) {
  return static_cast<int>(std::count_if(groups.begin(), groups.end(), [&](const auto& group) {
    std::set<std::vector<bool>> kinds;
    for (std::int32_t sample : group) {
      std::vector<bool> kind;
      for (double cost : samples[static_cast<std::size_t>(sample)].pools) kind.push_back(cost > 0);
      kinds.insert(kind);
    }
    return kinds.size() > 1;
  }));
}

TEST(Batching, KeepsModalitiesApartWhereTheyFit) {
  std::vector<SampleCost> samples;
  for (int i = 0; i < 16; ++i) samples.push_back({1.0, {i % 2 ? 1.0 : 0.0}});
  const Groups groups = group_samples(samples, 4, 4);
  expect_every_sample_once(groups, 16, 4);
  EXPECT_EQ(mixed_groups(samples, groups), 0);
}

TEST(Batching, MixesNoMoreThanItMust) {
  std::vector<SampleCost> samples;  // 5 with, 3 without: one group of four is mixed
  for (int i = 0; i < 8; ++i) samples.push_back({1.0, {i < 5 ? 1.0 : 0.0}});
  const Groups groups = group_samples(samples, 2, 4);
  expect_every_sample_once(groups, 8, 4);
  EXPECT_EQ(mixed_groups(samples, groups), 1);
}

TEST(Batching, BalancesCosts) {
  std::mt19937_64 random(2);
  std::vector<SampleCost> samples;
  for (int i = 0; i < 64; ++i) samples.push_back({1.0 + static_cast<double>(random() % 100) / 20, {}});
  const Groups groups = group_samples(samples, 8, 8);
  std::vector<double> loads;
  for (const auto& group : groups) {
    double load = 0;
    for (std::int32_t sample : group) load += samples[static_cast<std::size_t>(sample)].llm;
    loads.push_back(load);
  }
  const auto [low, high] = std::minmax_element(loads.begin(), loads.end());
  EXPECT_LT(*high / *low, 1.05);
}

TEST(Batching, HoldsForRandomShapes) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 1 + random() % 40;
    std::vector<SampleCost> samples(count);
    for (auto& sample : samples) {
      sample.llm = static_cast<double>(random() % 5);
      sample.pools = {random() % 2 ? 1.5 : 0.0, random() % 3 ? 0.0 : 2.0};
    }
    const auto microbatches = static_cast<std::int32_t>(1 + random() % count);
    const auto least = (count + static_cast<std::size_t>(microbatches) - 1) / static_cast<std::size_t>(microbatches);
    const auto size = static_cast<std::int32_t>(least + random() % 3);
    const Groups groups = group_samples(samples, microbatches, size);
    ASSERT_EQ(groups.size(), static_cast<std::size_t>(microbatches));
    expect_every_sample_once(groups, count, static_cast<std::size_t>(size));
    ASSERT_EQ(groups, group_samples(samples, microbatches, size));
  }
}

TEST(Batching, RefusesWhatDoesNotFit) {
  const std::vector<SampleCost> four(4, SampleCost{1.0, {}}), bad{{-1.0, {}}};
  EXPECT_THROW(group_samples(four, 1, 3), Error);  // too many
  EXPECT_THROW(group_samples(four, 5, 1), Error);  // a microbatch would be empty
  EXPECT_THROW(group_samples(four, 0, 4), Error);
  EXPECT_THROW(group_samples(four, 2, 0), Error);
  EXPECT_THROW(group_samples(bad, 1, 1), Error);
}

}  // namespace
}  // namespace nestor::scheduler
