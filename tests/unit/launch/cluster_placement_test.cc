#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/cluster_file.h>
#include <nestor/launch/cluster/placement.h>

namespace nestor::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string placement_failure(Placement& placement, const Resources& needs, const std::string& on = "") {
  try {
    placement.take("counter", needs, Place::pack, on);
  } catch (const actors::Error& error) {
    return error.what();
  }
  return "it fits";
}

Placement three_hosts() {
  return Placement({{"a", {{"cpus", 4}}}, {"b", {{"cpus", 4}, {"gpu_memory", 80}}}, {"c", {{"cpus", 8}}}});
}

TEST(PlacementTest, PackFillsAHostBeforeTheNext) {
  auto placement = three_hosts();
  std::vector<std::size_t> chosen;
  for (int i = 0; i < 5; ++i) chosen.push_back(placement.take("x", {{"cpus", 2}}, Place::pack, ""));
  EXPECT_THAT(chosen, ElementsAre(0, 0, 1, 1, 2));
}

TEST(PlacementTest, SpreadGoesRound) {
  auto placement = three_hosts();
  std::vector<std::size_t> chosen;
  for (int i = 0; i < 4; ++i) chosen.push_back(placement.take("x", {{"cpus", 1}}, Place::spread, ""));
  std::sort(chosen.begin(), chosen.begin() + 3);
  EXPECT_THAT(chosen, ElementsAre(0, 1, 2, 2)) << "then where the least is taken: 1 of 8";
}

TEST(PlacementTest, OneThatNeedsNothingFitsAlways) {
  auto placement = three_hosts();
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(placement.take("x", {}, Place::pack, "b"));
}

TEST(PlacementTest, WhatNoHostOffersIsRefusedWithTheShortfall) {
  auto placement = three_hosts();
  EXPECT_THAT(placement_failure(placement, {{"cpus", 64}}),
              AllOf(HasSubstr("counter"), HasSubstr("64 cpus"), HasSubstr("at most 8")));
  EXPECT_THAT(placement_failure(placement, {{"tpus", 1}}), AllOf(HasSubstr("1 tpus"), HasSubstr("at most 0")));
  EXPECT_THAT(placement_failure(placement, {{"gpu_memory", 10}}, "a"), AllOf(HasSubstr("a offers at most 0")));
  EXPECT_THAT(placement_failure(placement, {{"cpus", 8}, {"gpu_memory", 1}}), HasSubstr("no host offers together"));
  EXPECT_THAT(placement_failure(placement, {}, "z"), AllOf(HasSubstr("no host z"), HasSubstr("a, b, c")));
  EXPECT_THAT(placement_failure(placement, {{"cpus", -1}}), HasSubstr("cannot need"));
  EXPECT_THAT(placement_failure(placement, {{"cpus", std::nan("")}}), HasSubstr("cannot need"));
}

TEST(PlacementTest, WhatIsTakenIsRefusedUntilItIsGivenBack) {
  auto placement = three_hosts();
  EXPECT_EQ(placement.take("x", {{"gpu_memory", 50}}, Place::pack, ""), 1u);
  EXPECT_THAT(placement_failure(placement, {{"gpu_memory", 40}}),
              AllOf(HasSubstr("others have taken"), HasSubstr("b 30 gpu_memory"), Not(HasSubstr("a "))));
  placement.give_back(1, {{"gpu_memory", 50}});
  EXPECT_EQ(placement_failure(placement, {{"gpu_memory", 40}}), "it fits");
}

TEST(PlacementTest, TenthsAddUp) {
  Placement placement({{"a", {{"cpus", 1}}}});
  for (int i = 0; i < 10; ++i) placement.take("x", {{"cpus", 0.1}}, Place::pack, "");
  EXPECT_THAT(placement_failure(placement, {{"cpus", 0.1}}), HasSubstr("taken"));
}

TEST(PlacementTest, AnOfferOfTheFileStands) {
  Placement placement({{"a", {{"cpus", 1}}}, {"b", {}}});
  placement.offer(0, "cpus", 16);
  placement.offer(1, "cpus", 16);
  EXPECT_THAT(placement.free(0), ElementsAre(testing::Pair("cpus", 1)));
  EXPECT_THAT(placement.free(1), ElementsAre(testing::Pair("cpus", 16)));
}

TEST(PlacementTest, TheClusterFileSaysWhatAHostOffers) {
  const auto file = read_cluster_file(
      "format: nestor.cluster/1\nhosts: [{host: a, resources: {cpus: 4, gpu_memory: 80.5}}]\n", "lab.yaml");
  EXPECT_EQ(file.hosts[0].resources, (std::map<std::string, double>{{"cpus", 4}, {"gpu_memory", 80.5}}));
  for (const char* wrong : {"{cpus: -1}", "{cpus: many}", "{\"a b\": 1}", "[1]", "{cpus: .nan}"})
    EXPECT_THROW(
        read_cluster_file(std::string("format: nestor.cluster/1\nhosts: [{host: a, resources: ") + wrong + "}]\n",
                          "lab.yaml"),
        std::exception)
        << wrong;
}

}  // namespace
}  // namespace nestor::launch
