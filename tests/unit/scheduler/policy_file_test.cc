#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/policy_file.h>
#include <nestor/scheduler/verifier.h>
#include <nestor/tests/tools/random_workload.h>

namespace nestor::scheduler {
namespace {

using testing::HasSubstr;

void expect_sound(const Plan& plan) {
  for (const char* transport : {"buffered", "edge", "pair", "single"}) {
    const Verdict verdict = verify(plan, parse_transport(transport));
    ASSERT_TRUE(verdict.sound()) << transport << ": " << verdict.faults[0].where << ": " << verdict.faults[0].what;
  }
}

Plan read(const Workload& workload, const std::string& lanes) {
  return read_policy(workload, "format: nestor.policy/1\nname: hand\nlanes:\n" + lanes, "hand.yaml");
}

std::string error_of(const Workload& workload, const std::string& lanes) {
  try {
    read(workload, lanes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Workload with_vision(std::int32_t stages, std::int32_t microbatches) {
  Workload workload = make_workload(stages, 1, microbatches, 1, 2);
  workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1, 1));
  return workload;
}

/// Two stages, two microbatches, all forwards first: 0..1..2 | 1..2..3, B 3..5..7 | 5..7..9.
TEST(PolicyFile, AllForwardsFirst) {
  const Plan plan = read(make_workload(2, 1, 2, 1, 2), "- F0-1.0 B0-1.0\n- [F0.1, F1.1, B0.1 B1.1]\n");
  EXPECT_EQ(plan.makespan, 9);
  EXPECT_EQ(plan.policy, "hand");
  EXPECT_FALSE(plan.custom_backbone);  // it is 1F1B with all forwards as warm-up
  expect_sound(plan);
}

/// Backwards in descending order are no backbone: B1 3..5, B0 5..7 on the last stage, then 5..7 and 7..9 on the first.
TEST(PolicyFile, AnOrderOfItsOwnIsCustom) {
  const Plan plan = read(make_workload(2, 1, 2, 1, 2), "- F0-1 B1-0\n- F0-1 B1-0\n");
  EXPECT_EQ(plan.makespan, 9);
  EXPECT_TRUE(plan.custom_backbone);
  EXPECT_THAT(write_plan(plan), HasSubstr("\"backbone\": \"custom\""));
  expect_sound(plan);
  expect_sound(read_plan(write_plan(plan), "plan.json"));
}

TEST(PolicyFile, RestIsTheBackbones) {
  const Workload workload = make_workload(4, 2, 8, 1, 2);
  const Plan nested = make_plan(workload, {.policy = "nested"});
  for (const char* lanes : {"- ...\n- ...\n- ...\n- ...\n", "- F0.0 ...\n- ...\n", "[]\n", "- [...]\n"}) {
    const Plan plan = read(workload, lanes);
    EXPECT_EQ(digest(plan.table), digest(nested.table)) << lanes;
    EXPECT_FALSE(plan.custom_backbone);
  }
}

/// Stages in a V: 0 and 3 on lane 0, 1 and 2 on lane 1.
TEST(PolicyFile, StagesLiveWhereTheyAreNamed) {
  const Plan plan = read(make_workload(2, 2, 2, 2, 4),
                         "- F0.0 F1.0 F0.3 B0.3 F1.3 B1.3 B0.0 B1.0\n"
                         "- F0.1 F0.2 F1.1 F1.2 B0.2 B0.1 B1.2 B1.1\n");
  EXPECT_EQ(plan.workload.llm.lanes, (std::vector<LaneId>{LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}}));
  EXPECT_TRUE(plan.custom_backbone);
  expect_sound(plan);
}

TEST(PolicyFile, PoolMembersLiveWhereTheyAreNamed) {
  const Plan plan = read(with_vision(2, 2), "- vision:F0 ... EB0\n- ...\n- EF1 EB1\n");
  EXPECT_EQ(plan.workload.pools[0].lanes, (std::vector<LaneId>{LaneId{0}, LaneId{1}, LaneId{2}}));
  EXPECT_EQ(plan.workload.pools[0].owner, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(plan.table.lanes(), 3);
  expect_sound(plan);
}

TEST(PolicyFile, SplitBackwards) {
  const Plan plan = read(make_workload(2, 1, 3, 1, 2), "- F0-2 I0 I1 I2 W0-2\n- F0 I0 F1 I1 F2 I2 W0-2\n");
  expect_sound(plan);
  EXPECT_LT(plan.makespan, make_plan(make_workload(2, 1, 3, 1, 2), {.policy = "nested"}).makespan);
}

TEST(PolicyFile, RecomputesWhereTheWorkloadDoes) {
  Workload workload = make_workload(1, 1, 1, 1, 2);
  workload.llm.recompute = true;
  EXPECT_EQ(read(workload, "- F0 B0\n").makespan, 4);
  EXPECT_EQ(read(workload, "- F0 R0 I0 W0\n").makespan, 4);
  EXPECT_THAT(error_of(workload, "- F0 B0 R0\n"), HasSubstr("a part of its own that stands later"));
}

/// What is not named of pools fills idle time, within the cap where that is possible.
TEST(PolicyFile, PoolsAreCompletedOnRandomShapes) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    Workload workload = tests::random_workload(seed);
    if (seed % 4 == 0) workload.transfer_latency = 0.3;
    if (seed % 7 == 0) workload.llm.recompute = true;
    const Plan plan = read(workload, "[]\n");
    const Verdict verdict = verify(plan);
    ASSERT_TRUE(verdict.sound()) << seed << ": " << verdict.faults[0].where << ": " << verdict.faults[0].what;
    ASSERT_EQ(plan.table.lanes(), workload.lane_count());
  }
}

TEST(PolicyFile, KeepsTheMemoryCap) {
  Workload workload = make_workload(2, 1, 4, 1, 2);
  workload.llm.stash_bytes = 10;
  workload.memory_bytes_per_lane = 20;
  EXPECT_EQ(read(workload, "[]\n").makespan, 15);
  EXPECT_THROW(read(workload, "- F0-3 ...\n- F0-3 ...\n"), MemoryError);
}

TEST(PolicyFile, MistakesAreOneErrorWithTheirLine) {
  const Workload plain = make_workload(2, 1, 2, 1, 2), vision = with_vision(2, 2);
  EXPECT_THAT(error_of(plain, "- F0 X1\n"), HasSubstr("hand.yaml:4: lanes[0]: 'X1' is no operator"));
  EXPECT_THAT(error_of(plain, "- ...\n- F0.1 F0.1 ...\n"), HasSubstr("hand.yaml:5: lanes[1]: 'forward llm stage 1 "
                                                                     "microbatch 0' stands twice"));
  EXPECT_THAT(error_of(plain, "- F2 ...\n"), HasSubstr("names microbatch 2, there are 0 to 1"));
  EXPECT_THAT(error_of(plain, "- F0.2 ...\n"), HasSubstr("names stage 2, there are 0 to 1"));
  EXPECT_THAT(error_of(plain, "- F0-9999999 ...\n"), HasSubstr("names microbatch 9999999"));
  EXPECT_THAT(error_of(plain, "- F99999999999\n"), HasSubstr("has no number"));
  EXPECT_THAT(error_of(plain, "- F-1 ...\n"), HasSubstr("has no number"));
  EXPECT_THAT(error_of(plain, "- F\n"), HasSubstr("has no number"));
  EXPECT_THAT(error_of(plain, "- F0-1x ...\n"), HasSubstr("is no operator"));
  EXPECT_THAT(error_of(plain, "- F0 ...\n- F1.0 ...\n"), HasSubstr("hand.yaml:5: lanes[1]: 'forward llm stage 0 "
                                                                   "microbatch 1' runs here, but on lane 0 too"));
  EXPECT_THAT(error_of(plain, "- F0-1 B0\n- ...\n"), HasSubstr("lacks 'backward llm stage 0 microbatch 1'"));
  EXPECT_THAT(error_of(plain, "- F0-1 I0 ...\n- ...\n"), HasSubstr("lacks the weight half of"));
  EXPECT_THAT(error_of(plain, "- F0-1 B0 I0 ...\n"), HasSubstr("stands twice"));
  EXPECT_THAT(error_of(plain, "- F0-1 B0-1\n- F0 B0 B1 F1\n"),
              HasSubstr("hand.yaml:5: lanes[1]: 'backward llm stage 1 microbatch 1' on lane 1 waits for ever"));
  EXPECT_THAT(error_of(plain, "- B0 ...\n"),
              HasSubstr("lanes[0]: 'backward llm stage 0 microbatch 0' on lane 0 waits for ever"));
  EXPECT_THAT(error_of(plain, "- R0 ...\n"), HasSubstr("activations are kept"));
  EXPECT_THAT(error_of(plain, "- EF0 ...\n"), HasSubstr("of a kind of module that the workload lacks"));
  EXPECT_THAT(error_of(plain, "- audio:F0 ...\n"), HasSubstr("names no module"));
  EXPECT_THAT(error_of(plain, "- ... ...\n"), HasSubstr("has ... twice"));
  EXPECT_THAT(error_of(plain, "- {a: 1}\n"), HasSubstr("hand.yaml:4"));
  EXPECT_THAT(error_of(plain, "7\n"), HasSubstr("hand.yaml:4"));
  EXPECT_THAT(error_of(vision, "- EF0 ...\n- EB0 ...\n"), HasSubstr("a microbatch has one pool member"));
  Workload lacks = vision;
  lacks.pools[0].absent[1] = 1;
  EXPECT_THAT(error_of(lacks, "- EF1 ...\n"), HasSubstr("does not exist in this workload"));
  EXPECT_THROW(read_policy(plain, "format: nestor.policy/2\nlanes: []\n", "p"), Error);
  EXPECT_THROW(read_policy(plain, "format: nestor.policy/1\nname: coupled\nlanes: []\n", "p"), Error);
  EXPECT_THROW(read_policy(plain, "", "p"), Error);
}

}  // namespace
}  // namespace nestor::scheduler
