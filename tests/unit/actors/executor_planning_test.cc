// From a model and a batch to a workload, a placement and a plan; and the states of a step.

#include <algorithm>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/batch_plan.h>
#include <nestor/actors/error.h>
#include <nestor/actors/measured_costs.h>
#include <nestor/actors/step_phase.h>
#include <nestor/actors/step_planner.h>
#include <nestor/actors/workload_from_model.h>

#include "hook_model.h"

namespace nestor::test {
namespace {

using namespace actors;
using testing::ElementsAre;

class ExecutorPlanning : public testing::Test {
 protected:
  ExecutorPlanning() : spec_(hook_job(std::make_shared<Hooks>())) {}
  modules::StepBatch batch(std::int64_t step = 1) const {
    return make_step_batch(spec_.model, *spec_.dataset, spec_.schedule, spec_.seed, step);
  }
  modules::Outline outline() const {
    return modules::outline(spec_.model, modules::Seed(spec_.seed), batch().microbatches);
  }
  JobSpec spec_;
};

TEST_F(ExecutorPlanning, ABatchIsFixedBySeedAndStep) {
  auto ids = [](const modules::StepBatch& batch) {
    std::vector<std::int64_t> ids;
    for (const auto& microbatch : batch.microbatches)
      for (const auto& sample : microbatch.samples) ids.push_back(sample.id);
    return ids;
  };
  EXPECT_EQ(ids(batch(5)), ids(batch(5)));
  EXPECT_NE(ids(batch(5)), ids(batch(6)));
  const auto one = batch(5);
  ASSERT_EQ(one.microbatches.size(), 3u);
  for (std::size_t m = 0; m < 3; ++m) {
    EXPECT_EQ(one.microbatches[m].step, 5);
    EXPECT_EQ(one.microbatches[m].index, static_cast<std::int32_t>(m));
    EXPECT_EQ(one.microbatches[m].samples.size(), 2u);
  }
}

TEST_F(ExecutorPlanning, TheShapeSaysWhatIsAbsentAndWhatWeighsMore) {
  modules::StepBatch batch;
  auto sample = [](std::int64_t tokens, std::int64_t pixels) {
    modules::Sample sample;
    sample.counts = {{"tokens", tokens}, {"pixels", pixels}};
    return sample;
  };
  batch.microbatches = {{1, 0, {sample(4, 1), sample(8, 1)}},
                        {1, 1, {sample(8, 0), sample(2, 0)}},
                        {1, 2, {sample(24, 2), sample(1, 0)}}};
  const auto shape = shape_of(spec_.model, batch);
  EXPECT_THAT(shape.absent[0], ElementsAre(0, 1, 0));  // vision
  EXPECT_THAT(shape.absent[1], ElementsAre(1, 1, 1));  // image: no sample has a target
  EXPECT_THAT(shape.load[0], ElementsAre(2, 2, 7));    // 16, 16 and 48 padded tokens: quarters of their mean
  EXPECT_THAT(shape.load[1], ElementsAre(4, BatchShape::kEven, 4));
}

TEST_F(ExecutorPlanning, EveryLayerIsInOneStage) {
  for (std::int32_t stages = 1; stages <= 5; ++stages) {
    auto schedule = spec_.schedule;
    schedule.stages = stages;
    const auto cut = cut_model(spec_.model, outline(), schedule);
    ASSERT_EQ(cut.first_layer.size(), static_cast<std::size_t>(stages) + 1);
    EXPECT_EQ(cut.first_layer.front(), 0);
    EXPECT_EQ(cut.first_layer.back(), 5);
    EXPECT_TRUE(std::is_sorted(cut.first_layer.begin(), cut.first_layer.end()));
    EXPECT_EQ(cut.estimate.forward.size(), static_cast<std::size_t>(stages) + 2);
  }
}

TEST_F(ExecutorPlanning, FrozenModulesAreNotTrainable) {
  auto workload = [&](const std::vector<std::string>& frozen, bool forward_only = false) {
    auto model = hook_job(std::make_shared<Hooks>()).model;
    for (const auto& pattern : frozen) model.freeze(pattern);
    const auto known = modules::outline(model, modules::Seed(1), batch().microbatches);
    const auto cut = cut_model(model, known, spec_.schedule);
    const auto result =
        make_workload(model, known, spec_.schedule, cut.estimate, shape_of(model, batch()), forward_only);
    return std::vector<bool>{result.llm.trainable, result.pools[0].trainable, result.pools[1].trainable};
  };
  EXPECT_THAT(workload({}), ElementsAre(true, true, true));
  EXPECT_THAT(workload({"llm.*"}), ElementsAre(true, true, true));  // the head is left
  EXPECT_THAT(workload({"llm.*", "text.*"}), ElementsAre(false, true, true));
  EXPECT_THAT(workload({"vision.*", "image.*"}), ElementsAre(true, false, false));
  EXPECT_THAT(workload({}, true), ElementsAre(false, false, false));
}

TEST_F(ExecutorPlanning, EveryParameterIsOwnedOnceAndComesFromWhereItWas) {
  const auto known = outline();
  const auto cut = cut_model(spec_.model, known, spec_.schedule);
  auto placements = [&](std::vector<std::int32_t> vision) {
    auto schedule = spec_.schedule;
    schedule.pools["vision"] = std::move(vision);
    return place_model(
        spec_.model, known, cut,
        make_workload(spec_.model, known, schedule, cut.estimate, shape_of(spec_.model, batch()), false));
  };
  const auto before = placements({0});
  std::multiset<std::string> owned;
  for (const auto& placement : before) owned.insert(placement.owned.begin(), placement.owned.end());
  EXPECT_EQ(owned.size(), 8u);  // five layers, head, vision, image: a weight each
  EXPECT_EQ(std::set<std::string>(owned.begin(), owned.end()).size(), 8u);

  auto after = placements({1, 2});
  ASSERT_EQ(after.size(), 3u);
  add_handovers(before, after);
  ASSERT_EQ(after[0].give.size(), 2u);
  EXPECT_THAT(after[0].give[0].parameters, ElementsAre("vision.weight"));
  for (std::size_t lane : {1u, 2u}) {
    ASSERT_EQ(after[lane].take.size(), 1u);
    EXPECT_EQ(after[lane].take[0].peer, 0);
    EXPECT_THAT(after[lane].take[0].parameters, ElementsAre("vision.weight"));
    EXPECT_THAT(after[lane].shared.at("vision.weight"), ElementsAre(1, 2));
  }
}

TEST_F(ExecutorPlanning, StepsOfOneShapeShareAPlan) {
  auto spec = std::make_shared<const JobSpec>(spec_);
  StepPlanner planner(spec, batch());
  const auto plan = planner.prepare(spec_.schedule, batch(), false);
  EXPECT_EQ(planner.prepare(spec_.schedule, batch(), false), plan);
  EXPECT_NE(planner.prepare(spec_.schedule, batch(), true), plan);
  auto coupled = spec_.schedule;
  coupled.policy = "coupled";
  EXPECT_NE(planner.prepare(coupled, batch(), false)->digest, plan->digest);
}

LaneReport report_of(const LanePlan& plan, std::int64_t forward_ns, std::int64_t backward_ns) {
  LaneReport report;
  for (const auto& op : plan.row) {
    const bool forward = op.kind == scheduler::OpKind::forward;
    report.times.push_back({100, 100 + (forward ? forward_ns : backward_ns) + 50, 50, 0});  // 50 ns of it waiting
  }
  return report;
}

TEST_F(ExecutorPlanning, MeasuredCostsReplaceEstimatesOnceTheyAreSteady) {
  auto spec = std::make_shared<const JobSpec>(spec_);
  StepPlanner planner(spec, batch());
  const auto prepared = planner.prepare(spec_.schedule, batch(), false);
  const StageCosts estimate{{1, 1, 1, 1}, {2, 2, 2, 2}};
  MeasuredCosts costs;
  std::optional<StageCosts> measured;
  for (int step = 1; step <= 3; ++step) {
    for (const auto& row : prepared->rows) costs.add(row, report_of(row, 1000, 3000));
    measured = costs.step_done(estimate);
    EXPECT_EQ(measured.has_value(), step == 3);
  }
  for (double forward : measured->forward) EXPECT_NEAR(forward, 1e-6, 1e-12);
  for (double backward : measured->backward) EXPECT_NEAR(backward, 3e-6, 1e-12);
  // Nothing new: no other plan.
  for (int step = 4; step <= 10; ++step) {
    for (const auto& row : prepared->rows) costs.add(row, report_of(row, 1010, 2990));
    EXPECT_FALSE(costs.step_done(*measured)) << step;
  }
}

TEST(StepPhase, EveryPhaseIsReachedAndTheTableIsUnambiguous) {
  std::set<Phase> reached{Phase::idle};
  std::set<std::pair<Phase, PhaseEvent>> seen;
  for (const auto& transition : phase_transitions()) {
    EXPECT_TRUE(seen.emplace(transition.from, transition.event).second) << transition.why;
    EXPECT_EQ(next_phase(transition.from, transition.event), transition.to);
    reached.insert(transition.to);
  }
  EXPECT_EQ(reached.size(), 6u);
  EXPECT_THROW(next_phase(Phase::idle, PhaseEvent::finished), Error);
  EXPECT_THROW(next_phase(Phase::broken, PhaseEvent::run), Error);
}

}  // namespace
}  // namespace nestor::test
