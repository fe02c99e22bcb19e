#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include <nestor/scheduler/error.h>
#include <nestor/scheduler/partition.h>

namespace nestor::scheduler {
namespace {

double largest(const std::vector<double>& costs, const std::vector<std::int32_t>& cut, double first, double last) {
  double most = 0;
  for (std::size_t part = 0; part + 1 < cut.size(); ++part) {
    double sum = std::accumulate(costs.begin() + cut[part], costs.begin() + cut[part + 1], 0.0);
    if (part == 0) sum += first;
    if (part + 2 == cut.size()) sum += last;
    most = std::max(most, sum);
  }
  return most;
}

/// Every cut there is.
double best_by_hand(const std::vector<double>& costs, std::int32_t stages, double first, double last) {
  double best = 1e300;
  std::vector<std::int32_t> cut{0};
  auto go = [&](auto&& self) -> void {
    if (static_cast<std::int32_t>(cut.size()) == stages) {
      cut.push_back(static_cast<std::int32_t>(costs.size()));
      best = std::min(best, largest(costs, cut, first, last));
      cut.pop_back();
      return;
    }
    for (auto next = cut.back() + 1; next < static_cast<std::int32_t>(costs.size()); ++next) {
      cut.push_back(next);
      self(self);
      cut.pop_back();
    }
  };
  go(go);
  return best;
}

TEST(Partition, ThirtyLayersOverFourStagesTrainThirty) {
  const std::vector<double> costs(30, 1.0);
  const auto cut = partition_layers(costs, 4);
  EXPECT_EQ(cut, (std::vector<std::int32_t>{0, 7, 15, 22, 30}));
}

TEST(Partition, EmbeddingAndHeadCount) {
  const std::vector<double> costs(8, 1.0);
  const auto cut = partition_layers(costs, 4, 1.0, 2.0);
  EXPECT_EQ(largest(costs, cut, 1.0, 2.0), 3.0);
  EXPECT_EQ(cut.back() - cut[3], 1);  // the head's stage has one layer beside it
}

TEST(Partition, IsTheBestThereIs) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> costs(1 + random() % 11);
    for (double& cost : costs) cost = round % 3 ? static_cast<double>(random() % 100) / 8 : 1.0;
    const auto stages = static_cast<std::int32_t>(1 + random() % costs.size());
    const double first = static_cast<double>(random() % 3) * 4, last = static_cast<double>(random() % 3) * 7;
    const auto cut = partition_layers(costs, stages, first, last);
    ASSERT_EQ(cut.size(), static_cast<std::size_t>(stages) + 1);
    ASSERT_EQ(cut.front(), 0);
    ASSERT_EQ(cut.back(), static_cast<std::int32_t>(costs.size()));
    for (std::size_t i = 0; i + 1 < cut.size(); ++i) ASSERT_LT(cut[i], cut[i + 1]);
    ASSERT_DOUBLE_EQ(largest(costs, cut, first, last), best_by_hand(costs, stages, first, last));
  }
}

TEST(Partition, RefusesWhatCannotBeCut) {
  const std::vector<double> three(3, 1.0), bad{1.0, -1.0};
  EXPECT_THROW(partition_layers(three, 4), Error);
  EXPECT_THROW(partition_layers(three, 0), Error);
  EXPECT_THROW(partition_layers(bad, 1), Error);
  EXPECT_THROW(partition_layers(three, 1, std::nan("")), Error);
  EXPECT_THROW(partition_layers({}, 1), Error);
}

}  // namespace
}  // namespace nestor::scheduler
