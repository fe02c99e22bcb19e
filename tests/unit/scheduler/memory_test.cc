#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/scheduler/verifier.h>
#include <nestor/tests/tools/random_workload.h>

namespace nestor::scheduler {
namespace {

using testing::ElementsAre;

Plan plan(const Workload& workload, const std::string& policy, bool may_recompute = false) {
  return make_plan(workload, {.policy = policy, .may_recompute = may_recompute});
}

void expect_sound(const Plan& plan) {
  for (const char* transport : {"buffered", "edge", "pair", "single"}) {
    const Verdict verdict = verify(plan, parse_transport(transport));
    ASSERT_TRUE(verdict.sound()) << transport << ": " << verdict.faults[0].where << ": " << verdict.faults[0].what;
  }
}

std::int64_t peak(const Plan& plan) {
  std::int64_t most = 0;
  for (const LaneReport& lane : simulate(plan).lanes) most = std::max(most, lane.peak_bytes);
  return most;
}

/// One lane, two microbatches one after the other: F 0..1, B 1..3, F 3..4, B 4..6.
TEST(Bytes, StashFromForwardToBackward) {
  Workload workload = make_workload(1, 1, 2, 1, 2);
  workload.llm.stash_bytes = 10;
  EXPECT_THAT(bytes_over_time(plan(workload, "nested"))[0], ElementsAre(BytesPoint{0, 10}, BytesPoint{6, 0}));
  workload.resident_bytes = {100};
  EXPECT_THAT(bytes_over_time(plan(workload, "nested"))[0], ElementsAre(BytesPoint{0, 110}, BytesPoint{6, 100}));
  workload.llm.trainable = false;  // forwards alone keep nothing
  EXPECT_THAT(bytes_over_time(plan(workload, "nested"))[0], ElementsAre(BytesPoint{0, 100}));
}

/// Two stages, a message takes 1 + 200/100 = 3 seconds: F 0..1, on the way 1..4, F 4..5, B 5..7, 7..10, B 10..12.
TEST(Bytes, MessagesOnBothEndsWhileTheyTravel) {
  Workload workload = make_workload(2, 1, 1, 1, 2);
  workload.llm.stash_bytes = 10;
  workload.llm.message_bytes = 200;
  workload.transfer_latency = 1;
  workload.transfer_bytes_per_second = 100;
  const Plan made = plan(workload, "nested");
  EXPECT_EQ(simulate(made).makespan, 12);
  const auto bytes = bytes_over_time(made);
  EXPECT_THAT(bytes[0], ElementsAre(BytesPoint{0, 10}, BytesPoint{1, 210}, BytesPoint{4, 10}, BytesPoint{7, 210},
                                    BytesPoint{10, 10}, BytesPoint{12, 0}));
  EXPECT_THAT(bytes[1], ElementsAre(BytesPoint{0, 0}, BytesPoint{1, 200}, BytesPoint{4, 10}, BytesPoint{7, 200},
                                    BytesPoint{10, 0}));
}

/// An encoder's output waits on the first stage's lane: EF 0..1 on lane 1 twice, while lane 0 runs F of microbatch 0.
TEST(Bytes, MessagesWaitForTheirReader) {
  Workload workload = make_workload(1, 1, 2, 4, 0);
  workload.llm.trainable = false;
  PoolWorkload vision = make_pool(workload, "vision", PoolKind::encoder, 1, 0);
  vision.lanes = {LaneId{1}};
  vision.trainable = false;
  vision.message_bytes = 7;
  workload.pools.push_back(vision);  // F of 0 runs 1..5; the second output is there at 2 and read at 5
  EXPECT_THAT(bytes_over_time(plan(workload, "decoupled"))[0],
              ElementsAre(BytesPoint{0, 0}, BytesPoint{2, 7}, BytesPoint{5, 0}));
}

/// Two stages: F 0..1, F 1..2, recompute 2..3, B 3..5 on the last; on the first the recompute passes while the gradient
/// is not there yet, 1..2, so that B runs 5..7 and the step takes 7 seconds, not 8.
TEST(Recompute, RunsAheadOfTheGradient) {
  Workload workload = make_workload(2, 1, 1, 1, 2);
  workload.llm.recompute = true;
  workload.llm.stash_bytes = 10;
  workload.llm.message_bytes = 4;
  for (const std::string_view policy : policy_names()) {
    const Plan made = plan(workload, std::string(policy));
    expect_sound(made);
    EXPECT_EQ(made.makespan, 7) << policy;
    const Simulation simulation = simulate(made);
    EXPECT_EQ(simulation.makespan, 7);
    EXPECT_EQ(simulation.lanes[0].busy, 4);
    // Kept from the forward on is only its input, 4 bytes on the second stage; the rest from the recompute row on.
    EXPECT_THAT(simulation.lanes[1].bytes,
                ElementsAre(BytesPoint{0, 0}, BytesPoint{1, 4}, BytesPoint{2, 10}, BytesPoint{5, 0}));
    EXPECT_THAT(simulation.lanes[0].bytes, ElementsAre(BytesPoint{0, 0}, BytesPoint{1, 10}, BytesPoint{7, 0}));
  }
}

/// One lane, one microbatch, all recomputed: EF 1, F 2, R 2, B 4, R 1, EB 3.
TEST(Recompute, OfAPoolCostsItsForward) {
  Workload workload = make_workload(1, 1, 1, 2, 4);
  workload.llm.recompute = true;
  workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1, 3));
  workload.pools[0].recompute = true;
  for (const std::string_view policy : policy_names()) {
    const Plan made = plan(workload, std::string(policy));
    expect_sound(made);
    EXPECT_EQ(made.makespan, 13) << policy;
    const Plan again = read_plan(write_plan(made), "plan.json");
    EXPECT_EQ(digest(again.table), digest(made.table));
    expect_sound(again);
  }
}

TEST(Recompute, SoundOnRandomShapes) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Workload workload = tests::random_workload(seed);
    workload.llm.recompute = seed % 3 != 0;
    workload.llm.stash_bytes = 100;
    workload.llm.message_bytes = 10;
    for (PoolWorkload& pool : workload.pools) pool.recompute = seed % 2 == 0;
    if (seed % 5 == 0) {
      workload.transfer_latency = 0.125;
      workload.transfer_bytes_per_second = 64;
    }
    for (const std::string_view policy : policy_names()) {
      const Plan made = plan(workload, std::string(policy));
      const Verdict verdict = verify(made);
      ASSERT_TRUE(verdict.sound()) << "seed " << seed << " " << policy << ": " << verdict.faults[0].where << ": "
                                   << verdict.faults[0].what;
      ASSERT_EQ(simulate(made).makespan, made.makespan) << seed;
    }
  }
}

/// 16 microbatches, encoder activations of 100 bytes, nothing else: decoupled holds 4 a lane, nested 2, a cap of 1
/// fits.
TEST(MemoryCap, LowersActivationsInFlight) {
  Workload workload = make_workload(4, 1, 16, 1, 2);
  workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1.5, 3));
  workload.pools[0].stash_bytes = 100;
  workload.memory_bytes_per_lane = 250;
  EXPECT_EQ(peak(plan(workload, "nested")), 200);
  const Plan filled = plan(workload, "filled");  // four in flight without a cap
  EXPECT_LE(peak(filled), 250);
  expect_sound(filled);
  try {
    plan(workload, "decoupled");
    FAIL();
  } catch (const MemoryError& error) {
    EXPECT_EQ(error.needed(), 400);
    EXPECT_EQ(error.lane(), LaneId{0});
    EXPECT_THAT(error.what(), testing::HasSubstr("needs 400 bytes on lane 0"));
    EXPECT_THAT(error.what(), testing::HasSubstr("the cap is 250"));
  }
}

/// Without recomputation lane 0 of four keeps 4 * 10 bytes; with it one stash and the inputs of the others.
TEST(MemoryCap, RecomputesWhereAllowed) {
  Workload workload = make_workload(4, 1, 8, 1, 2);
  workload.llm.stash_bytes = 10;
  workload.llm.message_bytes = 1;
  workload.memory_bytes_per_lane = 20;
  EXPECT_THROW(plan(workload, "nested"), MemoryError);
  const Plan made = plan(workload, "nested", true);
  EXPECT_TRUE(made.workload.llm.recompute);
  EXPECT_LE(peak(made), 20);
  expect_sound(made);
  workload.resident_bytes = {21};
  try {
    plan(workload, "nested", true);
    FAIL();
  } catch (const MemoryError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("optimizer state alone"));
  }
}

TEST(MemoryCap, IsKeptOrRefusedOnRandomShapes) {
  int fitted = 0, refused = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    Workload workload = tests::random_workload(seed);
    workload.llm.stash_bytes = 50;
    workload.llm.message_bytes = 5;
    for (PoolWorkload& pool : workload.pools) pool.stash_bytes = 200;
    for (const char* policy : {"nested", "filled"}) {
      workload.memory_bytes_per_lane = 0;
      const std::int64_t free = peak(plan(workload, policy));
      workload.memory_bytes_per_lane = std::max<std::int64_t>(1, free * 4 / 5);
      try {
        const Plan made = plan(workload, policy);
        ASSERT_LE(peak(made), workload.memory_bytes_per_lane);
        ASSERT_TRUE(verify(made).sound());
        ++fitted;
      } catch (const MemoryError& error) {
        ASSERT_GT(error.needed(), workload.memory_bytes_per_lane);
        ++refused;
      }
    }
  }
  EXPECT_GT(fitted, 5);
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace nestor::scheduler
