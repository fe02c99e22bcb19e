#include <gtest/gtest.h>

#include <nestor/launch/cluster/step_history.h>

namespace nestor::launch {
namespace {

StepRow row(std::int64_t step) {
  StepRow row;
  row.step = step;
  row.loss = 1.0 / static_cast<double>(step);
  return row;
}

std::vector<std::int64_t> steps(const std::vector<StepRow>& rows) {
  std::vector<std::int64_t> numbers;
  for (const StepRow& row : rows) numbers.push_back(row.step);
  return numbers;
}

TEST(StepHistory, KeepsEveryStepWhileTheyAreFew) {
  StepHistory history(4);
  EXPECT_TRUE(history.empty());
  for (std::int64_t step = 1; step <= 8; ++step) history.add(row(step));
  EXPECT_EQ(steps(history.after(0, 100)), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(steps(history.after(3, 3)), (std::vector<std::int64_t>{4, 5, 6}));
  EXPECT_TRUE(history.after(8, 100).empty());
}

TEST(StepHistory, AMillionStepsTakeNoMoreRoomAndTheLatestStay) {
  constexpr std::size_t kKeep = 100;
  StepHistory history(kKeep);
  for (std::int64_t step = 1; step <= 1'000'000; ++step) {
    history.add(row(step));
    ASSERT_LE(history.size(), 2 * kKeep);
  }
  const auto all = steps(history.after(0, 1000));
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_LT(all.front(), 50'000);  // the curve still begins at its beginning
  EXPECT_GE(all.size(), kKeep + kKeep / 2);
  EXPECT_EQ(steps(history.after(1'000'000 - 100, 1000)).size(), 100u);
  std::int64_t widest = 0;  // and has no gaps
  for (std::size_t i = 1; i < all.size(); ++i) widest = std::max(widest, all[i] - all[i - 1]);
  EXPECT_LE(widest, 2 * 1'000'000 / static_cast<std::int64_t>(kKeep / 2));
}

TEST(StepHistory, GoesBackIntoWhatIsThinnedAndOnFromThere) {
  StepHistory history(10);
  for (std::int64_t step = 1; step <= 100; ++step) history.add(row(step));
  history.go_back_to(40);
  ASSERT_FALSE(history.empty());
  EXPECT_LE(history.last().step, 40);
  for (std::int64_t step = 41; step <= 60; ++step) history.add(row(step));
  const auto all = steps(history.after(0, 1000));
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end(), std::greater_equal<>()), all.end());
  EXPECT_EQ(all.back(), 60);
  history.go_back_to(0);
  EXPECT_TRUE(history.empty());
}

}  // namespace
}  // namespace nestor::launch
