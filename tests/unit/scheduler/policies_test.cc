#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/dependencies.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/scheduler/verifier.h>
#include <nestor/tests/tools/random_workload.h>

namespace nestor::scheduler {
namespace {

Plan plan(const Workload& workload, const std::string& policy, std::optional<std::int32_t> extra_warmup = {}) {
  PlanRequest request;
  request.policy = policy;
  request.extra_warmup = extra_warmup;
  return make_plan(workload, request);
}

double most(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

TEST(Nested, EqualsDecoupledExactlyOnEvenShapes) {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const Workload workload = tests::even_workload(seed);
    const Plan nested = plan(workload, "nested");
    ASSERT_EQ(nested.makespan, plan(workload, "decoupled").makespan);
    ASSERT_LE(nested.makespan, plan(workload, "coupled").makespan);
    bool generates = false;
    for (const PoolWorkload& pool : workload.pools) generates |= pool.kind == PoolKind::generator;
    for (std::size_t i = 0; i < workload.pools.size(); ++i) {
      const bool encoder = workload.pools[i].kind == PoolKind::encoder;
      const double bound = !encoder ? 1 : workload.chunks > 1 || generates ? 3 : 2;
      ASSERT_LE(most(nested.in_flight[i + 1]), bound);
    }
  }
}

/// Multiples of 0.1 are not representable; plans must not depend on which way they round.
TEST(Nested, EqualsDecoupledWithUnrepresentableCosts) {
  for (const double unit : {0.1, 1.0 / 3, 0.7e-6, 12345.6789}) {
    for (const bool generator : {false, true}) {
      Workload workload = make_workload(6, 3, 24, unit, 3 * unit);
      workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 7 * unit, 9 * unit));
      if (generator) workload.pools.push_back(make_pool(workload, "image", PoolKind::generator, 3 * unit, 5 * unit));
      const double decoupled = plan(workload, "decoupled").makespan;
      EXPECT_NEAR(plan(workload, "nested").makespan, decoupled, 1e-9 * decoupled) << unit;
    }
  }
}

TEST(Nested, ActivationsDoNotGrowWithMicrobatches) {
  for (const std::int32_t chunks : {1, 2}) {
    for (const bool generator : {false, true}) {
      std::vector<std::vector<double>> peaks;
      for (const std::int32_t M : {32, 256}) {
        Workload workload = make_workload(8, chunks, M, 1, 2);
        workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1.5, 3));
        if (generator) workload.pools.push_back(make_pool(workload, "image", PoolKind::generator, 2, 4));
        const Plan nested = plan(workload, "nested");
        std::vector<double> peak;
        for (const auto& module : nested.in_flight) peak.push_back(most(module));
        peaks.push_back(peak);
      }
      EXPECT_EQ(peaks[0], peaks[1]);
    }
  }
}

/// Every policy on every shape: all operators, sound under every transport, timed as early as they can be, and an LLM
/// order that is the backbone's.
TEST(Policies, SoundOnRandomShapes) {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    const Workload workload = tests::random_workload(seed);
    for (const std::string_view policy : policy_names()) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " " << policy);
      const Plan made = plan(workload, std::string(policy));
      for (const Transport transport : {Transport::buffered, Transport::edge, Transport::pair, Transport::single}) {
        const Verdict verdict = verify(made, transport);
        ASSERT_TRUE(verdict.sound()) << to_string(transport) << ": " << verdict.faults[0].where << ": "
                                     << verdict.faults[0].what;
      }
      ASSERT_EQ(simulate(made).makespan, made.makespan);
      const Dependencies dependencies(made.workload);
      const LaneOrders llm = backbone(dependencies, made.workload, made.extra_warmup);
      for (std::int32_t lane = 0; lane < llm.lanes(); ++lane) {
        std::vector<OperatorId> got;
        for (const Operator& op : made.table.row(LaneId{lane})) {
          if (op.is_compute() && op.module == kLlm.value) got.push_back(dependencies.find(op));
        }
        const auto want = llm.lane(LaneId{lane});
        ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << "lane " << lane;
      }
    }
  }
}

TEST(Policies, EqualInputsGiveEqualPlans) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    for (const std::string_view policy : policy_names()) {
      const Plan first = plan(tests::random_workload(seed), std::string(policy));
      const Plan second = plan(tests::random_workload(seed), std::string(policy));
      ASSERT_EQ(write_plan(first), write_plan(second));
      ASSERT_EQ(digest(first.table), digest(second.table));
    }
  }
}

TEST(Policies, OneMicrobatchRunsThroughEveryStage) {
  const Workload workload = make_workload(4, 1, 1, 1, 2);
  for (const std::string_view policy : policy_names()) EXPECT_EQ(plan(workload, std::string(policy)).makespan, 12);
}

TEST(Policies, RaggedMicrobatchesOfInterleavedDoNotDeadlock) {
  for (std::int32_t M = 1; M <= 11; ++M) {
    Workload workload = make_workload(5, 2, M, 1, 2);
    workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1, 1));
    workload.pools.push_back(make_pool(workload, "image", PoolKind::generator, 1, 1));
    for (const std::string_view policy : policy_names()) {
      EXPECT_TRUE(verify(plan(workload, std::string(policy))).sound()) << policy << " M " << M;
    }
  }
}

TEST(Policies, StagesOnOtherLanesAreCustom) {
  for (const std::vector<int>& lanes : {std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0},
                                        {0, 0, 1, 1, 2, 2, 3, 3},
                                        {5, 4, 3, 2, 1, 0, 0, 0},
                                        {0, 0, 0, 0, 0, 0, 0, 0}}) {
    Workload workload = make_workload(4, 2, 12, 1, 2);
    for (std::size_t s = 0; s < lanes.size(); ++s) workload.llm.lanes[s] = LaneId{lanes[s]};
    workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1, 1));
    workload.pools.push_back(make_pool(workload, "image", PoolKind::generator, 1, 1));
    for (const std::string_view policy : policy_names()) {
      const Plan made = plan(workload, std::string(policy));
      EXPECT_TRUE(made.custom_backbone);
      const Verdict verdict = verify(made);
      EXPECT_TRUE(verdict.sound()) << policy << ": " << verdict.faults[0].where << ": " << verdict.faults[0].what;
    }
  }
}

TEST(Planner, FixedExtraWarmup) {
  Workload workload = make_workload(4, 1, 16, 1, 2);
  EXPECT_EQ(plan(workload, "nested", 5).in_flight[0], (std::vector<double>{9, 8, 7, 6}));
  workload.pools.push_back(make_pool(workload, "image", PoolKind::generator, 2, 4));
  EXPECT_EQ(plan(workload, "nested", 6).extra_warmup, 6);
  EXPECT_THROW(plan(workload, "nested", 0), Error);  // the round of four never passes the last stage
  EXPECT_THROW(plan(workload, "nested", 17), Error);
  EXPECT_THROW(plan(workload, "nested", -1), Error);
  EXPECT_THROW(plan(workload, "decoupled", 3), Error);
}

TEST(Planner, UnknownPolicyNamesTheKnown) {
  try {
    plan(make_workload(2, 1, 2, 1, 2), "greedy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("coupled, decoupled, nested"));
  }
}

TEST(Planner, ReductionsThenOneUpdate) {
  Workload workload = make_workload(2, 1, 4, 1, 2);
  workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1, 1));
  PlanRequest request;
  request.tied.push_back({kLlm, {LaneId{0}, LaneId{1}}});
  const Plan made = make_plan(workload, request);
  for (std::int32_t lane = 0; lane < 2; ++lane) {
    const auto row = made.table.row(LaneId{lane});
    ASSERT_GE(row.size(), 3u);
    EXPECT_EQ(row[row.size() - 3].kind, OpKind::reduce);
    EXPECT_EQ(row[row.size() - 3].module, 1);
    EXPECT_EQ(row[row.size() - 2].kind, OpKind::reduce);
    EXPECT_EQ(row[row.size() - 2].module, 0);
    EXPECT_EQ(row[row.size() - 1].kind, OpKind::update);
  }
  request.tied[0].lanes = {LaneId{1}, LaneId{0}};
  EXPECT_THROW(make_plan(workload, request), Error);
}

/// Two stages, one microbatch, a message of 3 seconds: F 1, transfer 3, F 1 B 2, transfer 3, B 2.
TEST(Planner, TransfersThatCostTime) {
  Workload workload = make_workload(2, 1, 1, 1, 2);
  workload.llm.message_bytes = 200;
  workload.transfer_latency = 1;
  workload.transfer_bytes_per_second = 100;
  const Plan made = plan(workload, "nested");
  EXPECT_EQ(made.makespan, 12);
  for (const Operator& op : made.table.operators) {
    if (op.is_transfer()) {
      EXPECT_EQ(op.end - op.start, 3);
    }
  }
  EXPECT_EQ(simulate(made).transfer_bytes, 400);
}

TEST(Simulator, UtilisationAndBytes) {
  Workload workload = make_workload(4, 1, 8, 1, 2);
  workload.llm.stash_bytes = 10;
  workload.memory_bytes_per_lane = 30;
  const Simulation result = simulate(make_plan(workload, {.policy = "nested", .keep_memory_cap = false}));
  EXPECT_DOUBLE_EQ(result.utilisation, 24.0 / 33);
  EXPECT_DOUBLE_EQ(result.bubble, 9.0 / 33);
  EXPECT_EQ(result.lanes[0].peak_bytes, 40);
  EXPECT_TRUE(result.lanes[0].over_memory);
  EXPECT_EQ(result.lanes[0].over_at, 3);
  EXPECT_EQ(result.lanes[1].peak_bytes, 30);
  EXPECT_FALSE(result.lanes[1].over_memory);
}

}  // namespace
}  // namespace nestor::scheduler
