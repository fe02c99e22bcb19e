#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/error.h>
#include <nestor/actors/lane_program.h>
#include <nestor/actors/tag.h>
#include <nestor/scheduler/planner.h>

namespace nestor::test {
namespace {

using actors::compile;
using actors::LanePlan;
using actors::LaneProgram;
using scheduler::Direction;
using scheduler::LaneId;
using scheduler::Operator;
using scheduler::OpKind;
using testing::ElementsAre;
using testing::HasSubstr;

/// Lane `lane`'s row of a nested plan: two stages, an encoder and a generator that reads it too.
LanePlan row_of(std::int32_t lane, std::vector<std::uint8_t> absent = {0, 0, 0}) {
  auto workload = scheduler::make_workload(2, 1, 3, 1, 2);
  workload.pools.push_back(make_pool(workload, "vision", scheduler::PoolKind::encoder, 1.5, 3));
  workload.pools[0].absent = absent;
  workload.pools.push_back(make_pool(workload, "image", scheduler::PoolKind::generator, 2, 4));
  workload.pools[1].inputs = {scheduler::kLlm, scheduler::ModuleId{1}};
  const auto plan = scheduler::make_plan(workload, {});
  LanePlan result;
  result.lane = lane;
  result.model_stages = 2;
  result.microbatches = 3;
  result.pools = {{"vision", true, {}, absent}, {"image", false, {0, 1}, {0, 0, 0}}};
  result.updating = {0, 1};
  result.reductions = plan.table.reductions;
  const auto row = plan.table.row(LaneId{lane});
  result.row.assign(row.begin(), row.end());
  return result;
}

LaneProgram compiled(LanePlan plan) {
  scheduler::RowDigest digest;
  for (const Operator& op : plan.row) digest.add(op);
  plan.row_digest = digest.value();
  return compile(std::move(plan));
}

std::string refusal(LanePlan plan) {
  try {
    compiled(std::move(plan));
  } catch (const actors::Error& error) {
    EXPECT_EQ(error.actor(), "lane0");
    return error.what();
  }
  return "taken";
}

std::size_t index_of(const LanePlan& plan, OpKind kind, int nth = 0) {
  for (std::size_t i = 0; i < plan.row.size(); ++i)
    if (plan.row[i].kind == kind && nth-- == 0) return i;
  ADD_FAILURE() << "no such operator";
  return 0;
}

TEST(LaneProgram, EverySlotIsFilledOnceAndReadOnce) {
  for (std::int32_t lane : {0, 1}) {
    const LaneProgram program = compiled(row_of(lane, {0, 1, 0}));
    std::vector<int> filled(program.arrivals.size(), 0), read(program.arrivals.size(), 0);
    for (const auto& instruction : program.instructions) {
      for (std::int32_t slot : program.inputs(instruction))
        if (slot >= 0) ++read[static_cast<std::size_t>(slot)];
      for (std::int32_t slot : program.outputs(instruction))
        if (slot >= 0) ++filled[static_cast<std::size_t>(slot)];
    }
    EXPECT_GT(filled.size(), 0u);
    EXPECT_THAT(filled, testing::Each(1));
    EXPECT_THAT(read, testing::Each(1));
  }
}

TEST(LaneProgram, StashesPairForwardsWithBackwards) {
  const LaneProgram program = compiled(row_of(0));
  std::vector<int> uses(static_cast<std::size_t>(program.stash_count), 0);
  for (const auto& instruction : program.instructions)
    if (instruction.stash >= 0)
      uses[static_cast<std::size_t>(instruction.stash)] += instruction.op.kind == OpKind::forward ? 1 : 10;
  EXPECT_THAT(uses, testing::Each(11));
}

TEST(LaneProgram, SourcesAreThePlansAndAbsentOnesHaveNoSlot) {
  const LanePlan plan = row_of(0, {0, 1, 0});
  EXPECT_THAT(sources_of(plan, 0), ElementsAre(1));
  EXPECT_THAT(sources_of(plan, 1), ElementsAre(0));
  EXPECT_THAT(sources_of(plan, 2), ElementsAre());
  EXPECT_THAT(sources_of(plan, 3), ElementsAre(0, 1));
  const LaneProgram program = compiled(plan);
  for (const auto& instruction : program.instructions)
    if (instruction.op.kind == OpKind::forward && instruction.place == 0) {
      EXPECT_EQ(program.inputs(instruction)[0] < 0, instruction.op.microbatch == 1);
    }
}

TEST(LaneProgram, TagsNeverMeet) {
  // Two lanes, both neighbours the same: an activation and a gradient between them differ in more than their order.
  EXPECT_NE(actors::edge_tag(Direction::activation, 0, 1, 0, 5), actors::edge_tag(Direction::gradient, 0, 1, 0, 5));
  EXPECT_NE(actors::edge_tag(Direction::activation, 0, 1, 0, 5), actors::edge_tag(Direction::activation, 0, 2, 0, 5));
  EXPECT_NE(actors::edge_tag(Direction::activation, 0, 1, 0, 5), actors::edge_tag(Direction::activation, 0, 1, 1, 5));
  EXPECT_NE(actors::edge_tag(Direction::activation, 1, -1, 0, 5), actors::edge_tag(Direction::activation, 2, -1, 0, 5));
  EXPECT_NE(actors::reduction_tag(0), actors::norm_tag());
  EXPECT_NE(actors::norm_tag(), actors::state_tag());
}

TEST(LaneProgram, RefusesWhatCannotRun) {
  const LanePlan good = row_of(0);
  EXPECT_EQ(refusal(good), "taken");

  LanePlan plan = good;  // a value nobody makes
  plan.row.erase(plan.row.begin() + static_cast<std::ptrdiff_t>(index_of(plan, OpKind::recv)));
  EXPECT_THAT(refusal(plan), HasSubstr("reads what no earlier operator of the row makes"));

  plan = good;  // received twice
  plan.row.insert(plan.row.begin() + static_cast<std::ptrdiff_t>(index_of(plan, OpKind::recv)),
                  plan.row[index_of(plan, OpKind::recv)]);
  EXPECT_THAT(refusal(plan), HasSubstr("makes what is there already"));

  plan = good;  // sent twice
  plan.row.insert(plan.row.begin() + static_cast<std::ptrdiff_t>(index_of(plan, OpKind::send)),
                  plan.row[index_of(plan, OpKind::send)]);
  EXPECT_THAT(refusal(plan), HasSubstr("reads what another operator of the row reads"));

  plan = good;  // a receive that nobody reads
  Operator stray = plan.row[index_of(plan, OpKind::recv)];
  stray.module = 1;
  stray.to_module = 2;
  plan.row.insert(plan.row.begin(), stray);
  EXPECT_THAT(refusal(plan), HasSubstr("receives what no operator of the row reads"));

  plan = good;  // backward before forward
  std::swap(plan.row[index_of(plan, OpKind::forward)], plan.row[index_of(plan, OpKind::backward)]);
  EXPECT_NE(refusal(plan), "taken");

  plan = good;  // work after the update
  std::rotate(plan.row.begin(), plan.row.end() - 1, plan.row.end());
  EXPECT_THAT(refusal(plan), HasSubstr("comes after the update"));

  plan = good;
  plan.row[index_of(plan, OpKind::backward)].kind = OpKind::backward_weight;
  EXPECT_THAT(refusal(plan), HasSubstr("whole backwards"));

  plan = good;
  plan.row[0].microbatch = 3;
  EXPECT_THAT(refusal(plan), HasSubstr("microbatch there is not"));

  plan = good;
  plan.pools[0].absent = {1, 1, 1};
  EXPECT_THAT(refusal(plan), HasSubstr("modality that the microbatch lacks"));

  plan = good;
  plan.pools[0].absent = {1};
  EXPECT_THAT(refusal(plan), HasSubstr("does not say which microbatches"));
}

TEST(LaneProgram, RefusesARowThatIsNotTheOneAnnounced) {
  LanePlan plan = row_of(0);
  plan.row_digest = 1;
  EXPECT_THROW(compile(plan), actors::Error);
}

TEST(LaneProgram, RefusesSizesThatTagsCannotTell) {
  LanePlan plan = row_of(0);
  plan.microbatches = actors::kMaxMicrobatches;
  EXPECT_THAT(refusal(plan), HasSubstr("refuses a plan of"));
}

}  // namespace
}  // namespace nestor::test
