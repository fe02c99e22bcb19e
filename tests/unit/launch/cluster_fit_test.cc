#include <gtest/gtest.h>

#include <nestor/launch/cluster/fit.h>

namespace nestor::launch {
namespace {

actors::ScheduleOptions schedule(std::int32_t stages, std::map<std::string, std::vector<std::int32_t>> pools) {
  actors::ScheduleOptions options;
  options.stages = stages;
  options.pools = std::move(pools);
  return options;
}

TEST(Fit, CountsLanesOfStagesAndOfPoolsOnDevicesOfTheirOwn) {
  EXPECT_EQ(lanes_of(schedule(3, {})), 3);
  EXPECT_EQ(lanes_of(schedule(2, {{"vision", {0, 1}}})), 2);
  EXPECT_EQ(lanes_of(schedule(2, {{"vision", {2, 4}}, {"image", {3}}})), 5);
}

TEST(Fit, PoolsShrinkToTheLanesThatAreLeftAndNoneIsEmpty) {
  const auto fitted = fit(schedule(2, {{"vision", {2, 3, 0}}, {"image", {3}}, {"audio", {1}}}), 3);
  EXPECT_EQ(fitted.pools.at("vision"), (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(fitted.pools.at("image"), (std::vector<std::int32_t>{2}));
  EXPECT_EQ(fitted.pools.at("audio"), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(fitted.stages, 2);
}

TEST(Fit, LeavesAScheduleThatFitsAsItIs) {
  const auto asked = schedule(2, {{"vision", {1, 2}}});
  EXPECT_EQ(fit(asked, 3).pools, asked.pools);
  EXPECT_EQ(fit(asked, 8).pools, asked.pools);
}

}  // namespace
}  // namespace nestor::launch
