#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/scheduler/error.h>
#include <nestor/scheduler/exchange/torch_csv.h>

#include "plan_edit.h"

namespace nestor::scheduler::testing {
namespace {

using ::testing::HasSubstr;
using enum CsvDialect;

constexpr Transport kAll[] = {Transport::buffered, Transport::edge, Transport::pair, Transport::single};

Plan read(std::string_view text, CsvDialect dialect = torch) {
  return read_torch_csv(text, "t.csv", dialect);
}

void expect_sound(const Plan& plan) {
  for (Transport transport : kAll) {
    const Verdict verdict = verify(plan, transport);
    EXPECT_TRUE(verdict.sound()) << verdict.faults[0].where << ": " << verdict.faults[0].what;
  }
}

std::string error_of(std::string_view text, CsvDialect dialect = torch) {
  try {
    read(text, dialect);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TorchCsv, GpipeIsABackboneWithAllForwardsFirst) {
  const Plan plan = read("0F0,0F1,0F2,,,,,0B0,0B1,0B2\r\n,1F0,1F1,1F2,1B0,1B1,1B2\r\n");
  EXPECT_FALSE(plan.custom_backbone);
  EXPECT_EQ(plan.workload.stages, 2);
  EXPECT_EQ(plan.workload.microbatches, 3);
  EXPECT_EQ(plan.makespan, 12);  // (M + P - 1) * (F + B)
  EXPECT_EQ(plan.in_flight[0], (std::vector<double>{3, 3}));
  expect_sound(plan);
}

TEST(TorchCsv, KnowsTheBackbonesItWrites) {
  for (auto [p, v, m] : {std::tuple{4, 1, 8}, {4, 2, 8}, {2, 2, 6}, {3, 1, 2}, {1, 1, 4}, {4, 3, 7}})
    for (bool transfers : {false, true})
      for (CsvDialect dialect : {torch, torch_legacy}) {
        Workload w = make_workload(p, v, m, v, 2 * v);  // a stage costs 1 and 2
        const Plan plan = plan_of(w, "nested");
        const std::string text = write_torch_csv(plan, dialect, transfers);
        EXPECT_TRUE(text.ends_with("\r\n"));
        const Plan again = read(text, dialect);
        EXPECT_FALSE(again.custom_backbone);
        EXPECT_EQ(again.makespan, plan.makespan);
        EXPECT_EQ(again.in_flight, plan.in_flight);
        EXPECT_EQ(digest(again.table), digest(plan.table));
        EXPECT_EQ(write_torch_csv(again, dialect, transfers), text);
        expect_sound(again);
      }
}

TEST(TorchCsv, ZeroBubbleFillsWithWeights) {
  const Plan plan = read("0F0,0F1,,,0I0,0W0,0I1,0W1\n,1F0,1I0,1F1,1I1,1W0,1W1\n");
  EXPECT_FALSE(plan.custom_backbone);  // 1F1B with the weight halves moved back
  EXPECT_EQ(plan.makespan, 7);         // by hand; with whole backwards it is 9
  expect_sound(plan);
  // The same in the other dialect: B is the input half there, BW the whole.
  const Plan legacy = read("0F0,0F1,0B0,0W0,0BW1\n1F0,1B0,1F1,1BW1,1W0\n", torch_legacy);
  EXPECT_EQ(legacy.table.row(LaneId{0})[0].kind, OpKind::forward);
  expect_sound(legacy);
}

/// Two stages on each rank, the last stage beside the first.
TEST(TorchCsv, VPlacedAndOverlapped) {
  const Plan plan = read(
      "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1,0REDUCE_GRAD,3REDUCE_GRAD\n"
      "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
  EXPECT_TRUE(plan.custom_backbone);
  EXPECT_EQ(plan.workload.llm.lanes, (std::vector<LaneId>{LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}}));
  EXPECT_EQ(plan.workload.chunks, 2);
  expect_sound(plan);
  const Plan overlapped = read(
      "0UNSHARD,0F0,0F1,3F0,(3F1;3B0)OVERLAP_F_B,3B1,0B0,0B1,0RESHARD\n"
      "1F0,2F0,1F1,(2F1;2B0)OVERLAP_F_B,1B0,2B1,1B1\n");
  EXPECT_EQ(overlapped.table.row(LaneId{0}).size(), plan.table.row(LaneId{0}).size());
  expect_sound(overlapped);
}

TEST(TorchCsv, KeepsTransfersAndLetsTheVerifierJudge) {
  const std::string good = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
  expect_sound(read(good));
  // Both ranks receive first: nothing is ever sent.
  const Plan crossed = read(
      "0F0,0F1,0SEND_F0,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
  EXPECT_TRUE(verify(crossed, Transport::buffered).sound());
  const Verdict stuck = verify(crossed, Transport::single);
  ASSERT_FALSE(stuck.sound());
  EXPECT_THAT(stuck.faults[0].what, HasSubstr("hangs under transport 'single'"));
  const Plan lonely = read("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n");
  ASSERT_FALSE(verify(lonely).sound());
  EXPECT_THAT(verify(lonely).faults[0].what, HasSubstr("has no send on lane 1"));
}

TEST(TorchCsv, UnevenRanksAndForwardOnly) {
  expect_sound(read("0F0,1F0,1B0,0B0\n"));           // one rank, two stages
  expect_sound(read("0F0,0B0\n1F0,2F0,2B0,1B0\n"));  // three stages on two ranks
  const Plan forward = read("0F0,0F1\n1F0,1F1\n");
  EXPECT_FALSE(forward.workload.llm.trainable);
  EXPECT_EQ(forward.makespan, 3);
  expect_sound(forward);
}

TEST(TorchCsv, RefusesEachMistakeAtItsCell) {
  EXPECT_THAT(error_of("0F0,0F0xyz"), HasSubstr("t.csv:1:2: '0F0xyz' is no action"));
  EXPECT_THAT(error_of("0F0,0B0\n1F0,1Q0"), HasSubstr("t.csv:2:2: '1Q0' is no action"));
  for (const char* text : {"",
                           "\n\n",
                           ",,,",
                           "F0",
                           "0F",
                           "0f0",
                           "0F-1",
                           "0F0,0BW0",
                           "0F0 0B0",
                           "0F0;0B0",
                           "(0F0;0B0)",
                           "(0F0)OVERLAP_F_B",
                           "(0B0;0F0)OVERLAP_F_B",
                           "0F99999999999999999999",
                           "0F0,0B0,0REDUCE_GRAD0",
                           "0SEND_F",
                           "0REDUCE_GRAD",
                           "0F268435456",
                           "268435456F0",
                           "0F0,0SEND_F0,0B0",
                           "0F0,0RECV_F0,0B0",
                           "0F0,0B0,0B0",
                           "0F0,0F0,0B0",
                           "0F0,0I0",
                           "0F0,0W0",
                           "0W0,0F0,0I0",
                           "0B0,0F0",
                           "0F0,0REDUCE_GRAD,0B0",
                           "0F0,0B0\n0F1,0B1",
                           "1F0,1B0",
                           "0F0,0B0,0F2,0B2",
                           "\"0F0\",\"0B0\"",
                           "0F0,\x01\x02",
                           "\xff\xfe"})
    EXPECT_THAT(error_of(text), HasSubstr("t.csv:")) << text;
  EXPECT_THAT(error_of("0F0,0I0", torch_legacy), HasSubstr("is it of dialect torch?"));
  EXPECT_THAT(error_of("1F0,1B0\n0B0,0F0"), HasSubstr("t.csv:"));
  EXPECT_THROW(parse_csv_dialect("jax"), Error);
  EXPECT_THROW(read_torch_csv("0F0,0B0", "t.csv", torch, {1, 2, 1, 2}), Error);
  EXPECT_THROW(read_torch_csv("0F0,0B0", "t.csv", torch, {1, std::nan(""), 1, 1}), Error);
  EXPECT_THROW(write_torch_csv(plan_of(shape("plain"), "nested"), torch, true), Error);
}

}  // namespace
}  // namespace nestor::scheduler::testing
