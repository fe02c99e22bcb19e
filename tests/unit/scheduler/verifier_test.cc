/// What the verifier says, and cases made by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/scheduler/error.h>

#include "plan_edit.h"

namespace nestor::scheduler::testing {
namespace {

using ::testing::HasSubstr;

constexpr Transport kAll[] = {Transport::buffered, Transport::edge, Transport::pair, Transport::single};

TEST(Verifier, PassesEveryPolicyOnEveryShape) {
  for (const std::string& name : shapes())
    for (std::string_view policy : policy_names())
      for (Transport transport : kAll) {
        const Plan plan = plan_of(shape(name), policy);
        const Verdict verdict = verify(plan, transport);
        EXPECT_TRUE(verdict.sound()) << name << " " << policy << ": " << verdict.faults[0].where << ": "
                                     << verdict.faults[0].what;
        EXPECT_TRUE(runs_through(plan, transport)) << name << " " << policy;
      }
}

/// Two lanes that each send first under rendezvous and one queue: the textbook case, and how it is told.
TEST(Verifier, TellsTheCircleOfWaits) {
  Workload w = make_workload(2, 1, 2, 1, 2);
  Plan plan = plan_of(w, "nested");
  Rows rows = rows_of(plan);
  // Lane 0: move the recv of B(0) ahead of the send of F(1), as if it had been posted early.
  std::size_t send = 0, recv = 0;
  for (std::size_t i = 0; i < rows[0].size(); ++i) {
    if (rows[0][i].kind == OpKind::send && rows[0][i].microbatch == 1) send = i;
    if (rows[0][i].kind == OpKind::recv && rows[0][i].microbatch == 0) recv = i;
  }
  ASSERT_LT(send, recv);
  std::rotate(rows[0].begin() + static_cast<std::ptrdiff_t>(send), rows[0].begin() + static_cast<std::ptrdiff_t>(recv),
              rows[0].begin() + static_cast<std::ptrdiff_t>(recv) + 1);
  put_rows(plan, rows);
  EXPECT_TRUE(verify(plan, Transport::buffered).sound());
  const Verdict verdict = verify(plan, Transport::single);
  ASSERT_FALSE(verdict.sound());
  const std::string& what = verdict.faults[0].what;
  EXPECT_THAT(what, HasSubstr("hangs under transport 'single'"));
  EXPECT_THAT(what, HasSubstr("recv gradient llm stage 1 -> llm stage 0 microbatch 0 from lane 1"));
  EXPECT_THAT(what, HasSubstr("stands behind"));
  EXPECT_THAT(verdict.faults[0].where, HasSubstr("lane "));
}

TEST(Verifier, TellsTheCircleOfOrders) {
  Plan plan = plan_of(make_workload(2, 1, 2, 1, 2), "nested");
  Rows rows = rows_of(plan);
  std::vector<std::size_t> forwards, backwards;
  for (std::size_t i = 0; i < rows[1].size(); ++i)
    if (rows[1][i].kind == OpKind::backward) backwards.push_back(i);
  for (std::size_t i = 0; i < rows[0].size(); ++i)
    if (rows[0][i].kind == OpKind::forward) forwards.push_back(i);
  // Lane 0 runs B(0) before F(1); lane 1 has F(1) ahead of B(0).
  plan.custom_backbone = true;
  for (auto& row : rows) std::erase_if(row, [](const Operator& op) { return !op.is_compute(); });
  auto at = [&](std::size_t lane, OpKind kind, int m) {
    return std::find_if(rows[lane].begin(), rows[lane].end(),
                        [&](const Operator& o) { return o.kind == kind && o.microbatch == m; });
  };
  std::iter_swap(at(0, OpKind::forward, 1), at(0, OpKind::backward, 0));
  std::iter_swap(at(1, OpKind::backward, 0), at(1, OpKind::forward, 1));
  put_rows(plan, rows);
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.sound());
  EXPECT_THAT(verdict.faults[0].what, HasSubstr("wait for each other in a circle"));
  EXPECT_THAT(
      verdict.faults[0].what,
      HasSubstr(
          "lane 0 waits in 'backward llm stage 0 microbatch 0' for 'backward llm stage 1 microbatch 0' of lane 1"));
  EXPECT_THAT(
      verdict.faults[0].what,
      HasSubstr("lane 1 waits in 'forward llm stage 1 microbatch 1' for 'forward llm stage 0 microbatch 1' of lane 0"));
  EXPECT_THROW(complete(plan), Error);
}

/// Receives moved down next to their readers pass `buffered` and hang elsewhere (P4 M16 with a generator: everywhere).
TEST(Verifier, ReceivesNextToTheirReaders) {
  auto late = [](Plan plan) {
    Rows rows = rows_of(plan);
    for (auto& row : rows)
      for (std::size_t i = row.size(); i-- > 0;)
        if (row[i].kind == OpKind::recv) {
          const Operator recv = row[i];
          std::size_t at = i + 1;
          auto reads = [&](const Operator& o) {
            return o.is_compute() && o.module == recv.to_module && o.stage == recv.to_stage &&
                   o.microbatch == recv.microbatch &&
                   (o.kind == OpKind::forward) == (recv.direction == Direction::activation);
          };
          while (!reads(row[at])) ++at;
          std::rotate(row.begin() + static_cast<std::ptrdiff_t>(i), row.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                      row.begin() + static_cast<std::ptrdiff_t>(at));
        }
    put_rows(plan, rows);
    return plan;
  };
  Workload w = make_workload(4, 1, 16, 1, 2);
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1.5, 3));
  w.pools.push_back(make_pool(w, "image", PoolKind::generator, 2, 4));
  const Plan plan = late(plan_of(w, "nested"));
  EXPECT_TRUE(verify(plan, Transport::buffered).sound());
  for (Transport transport : {Transport::edge, Transport::pair, Transport::single}) {
    EXPECT_FALSE(verify(plan, transport).sound()) << to_string(transport);
    EXPECT_FALSE(runs_through(plan, transport));
  }
  const Plan lanes = late(plan_of(make_workload(2, 2, 8, 1, 2), "nested"));
  EXPECT_TRUE(verify(lanes, Transport::buffered).sound());
  EXPECT_TRUE(verify(lanes, Transport::edge).sound());
  EXPECT_FALSE(verify(lanes, Transport::pair).sound());
  EXPECT_FALSE(verify(lanes, Transport::single).sound());
}

TEST(Verifier, NamesThePlace) {
  Plan plan = plan_of(shape("plain"), "nested");
  Rows rows = rows_of(plan);
  rows[2].erase(std::find_if(rows[2].begin(), rows[2].end(), [](const Operator& o) { return o.kind == OpKind::send; }));
  put_rows(plan, rows);
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.sound());
  EXPECT_THAT(verdict.faults[0].where, HasSubstr("lane "));
  EXPECT_THAT(verdict.faults[0].what, HasSubstr("has no send on lane 2: it would wait for ever"));
}

TEST(Verifier, TransportNames) {
  for (Transport transport : kAll) EXPECT_EQ(parse_transport(to_string(transport)), transport);
  EXPECT_THROW(parse_transport("carrier pigeon"), Error);
}

TEST(Completion, SplitAndRecomputedPlansAreSound) {
  for (const std::string& name : shapes())
    for (bool recompute : {false, true})
      for (Transport transport : kAll) {
        const Plan plan = split_plan(name, recompute);
        const Verdict verdict = verify(plan, transport);
        EXPECT_TRUE(verdict.sound()) << name << ": " << verdict.faults[0].where << ": " << verdict.faults[0].what;
      }
}

/// An order without times gives the plan that it was taken from.
TEST(Completion, RestoresAPlanFromItsOrders) {
  for (const std::string& name : shapes()) {
    const Plan plan = plan_of(shape(name), "nested");
    Plan bare = plan;
    Rows rows = rows_of(plan);
    for (auto& row : rows) {
      std::erase_if(row, [](const Operator& op) { return !op.is_compute(); });
      for (Operator& op : row) op.start = op.end = 0;
    }
    put_rows(bare, rows);
    bare.table.reductions.clear();
    bare.makespan = 0;
    bare.in_flight.clear();
    complete(bare);
    EXPECT_TRUE(verify(bare).sound()) << name;
    EXPECT_EQ(bare.makespan, plan.makespan) << name;
    EXPECT_EQ(bare.in_flight, plan.in_flight) << name;
    EXPECT_EQ(bare.table.operators.size(), plan.table.operators.size()) << name;
  }
}

/// P1, backward 2 in halves of 1, recomputed forward 1: 1 + 1 + 2 by hand.
TEST(Completion, RecomputationCostsItsForward) {
  const Workload w = make_workload(1, 1, 1, 1, 2);
  Plan plan;
  plan.policy = "hand";
  plan.workload = w;
  plan.workload.llm.recompute = true;
  plan.custom_backbone = true;
  auto row = [](OpKind kind) {
    Operator op;
    op.kind = kind;
    op.microbatch = 0;
    op.stage = 0;
    return op;
  };
  put_rows(plan,
           {{row(OpKind::forward), row(OpKind::recompute), row(OpKind::backward_input), row(OpKind::backward_weight)}});
  complete(plan);
  EXPECT_EQ(plan.makespan, 4);
  EXPECT_TRUE(verify(plan).sound());
}

}  // namespace
}  // namespace nestor::scheduler::testing
