// What users of other pipeline schedulers ran into, one test each, and where else a behaviour is tested:
//
// - fewer microbatches than stages: FewMicrobatches (Policies.OneMicrobatchRunsThroughEveryStage)
// - ragged M: RaggedM (Policies.RaggedMicrobatchesOfInterleavedDoNotDeadlock)
// - both neighbours are one lane: BothNeighboursOneLane (Transports.AgreeWithThePlainModel)
// - a ready send behind an early receive: ReadySendsGoFirst (Verifier.ReceivesNextToTheirReaders)
// - connections that skip stages, several peers: SkippingConnections (Verifier.PassesEveryPolicyOnEveryShape)
// - split backward: SplitBackward (Completion.*, Mutations.EveryOneIsCaught)
// - any stage on any lane: AnyPlacement (Policies.StagesOnOtherLanesAreCustom, TorchCsv.VPlacedAndOverlapped)
// - receives read twice, lost sends: EveryTransferHasItsReader (Mutations.EveryOneIsCaught)
// - 30 layers over 4 stages: ThirtyLayersOverFourStages (Partition.*)

#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/partition.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/policy_file.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::scheduler {
namespace {

using testing::HasSubstr;

constexpr Transport kAll[] = {Transport::buffered, Transport::edge, Transport::pair, Transport::single};

Workload full(std::int32_t stages, std::int32_t chunks, std::int32_t microbatches) {
  Workload w = make_workload(stages, chunks, microbatches, 1, 2);
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1.5, 3));
  w.pools.push_back(make_pool(w, "image", PoolKind::generator, 2, 4));
  return w;
}

void expect_sound_everywhere(const Plan& plan, const std::string& what) {
  for (const Transport transport : kAll) {
    const Verdict verdict = verify(plan, transport);
    ASSERT_TRUE(verdict.sound()) << what << ", " << to_string(transport) << ": " << verdict.faults[0].where << ": "
                                 << verdict.faults[0].what;
  }
}

void for_every_policy(const Workload& workload, const std::function<void(const Plan&)>& check) {
  for (const std::string_view policy : policy_names()) {
    PlanRequest request;
    request.policy = policy;
    const Plan plan = make_plan(workload, request);
    expect_sound_everywhere(plan, request.policy);
    check(plan);
  }
}

using Key = std::tuple<int, int, int, int, int, Direction>;
Key key_of(const Operator& op) {
  return {op.module, op.stage, op.to_module, op.to_stage, op.microbatch, op.direction};
}

TEST(Behaviours, FewMicrobatches) {
  for (const std::int32_t microbatches : {1, 2, 3}) {
    for_every_policy(make_workload(4, 1, microbatches, 1, 2), [&](const Plan& plan) {
      EXPECT_EQ(plan.makespan, 4 * 3 + 3 * (microbatches - 1)) << plan.policy;  // M 1: the sum of all F and B
    });
    for_every_policy(full(4, 2, microbatches), [](const Plan&) {});
  }
}

TEST(Behaviours, RaggedM) {
  for (const std::int32_t microbatches : {5, 7, 9, 11, 13}) {
    for_every_policy(full(4, 1, microbatches), [](const Plan&) {});
    for_every_policy(full(4, 2, microbatches), [](const Plan&) {});
  }
}

/// An untagged channel in each direction would still deliver the right payload: sends and receives come in one order.
TEST(Behaviours, BothNeighboursOneLane) {
  for (const Workload& workload : {make_workload(2, 2, 8, 1, 2), full(2, 2, 8), full(2, 3, 7)}) {
    for_every_policy(workload, [](const Plan& plan) {
      std::map<std::pair<int, int>, std::vector<Key>> sent, received;
      for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane) {
        for (const Operator& op : plan.table.row(LaneId{lane})) {
          if (op.kind == OpKind::send) sent[{lane, op.peer}].push_back(key_of(op));
          if (op.kind == OpKind::recv) received[{op.peer, lane}].push_back(key_of(op));
        }
      }
      EXPECT_FALSE(sent.empty());
      EXPECT_EQ(sent, received) << plan.policy;
      for (const auto& [pair, keys] : sent) {
        EXPECT_EQ(std::set<Key>(keys.begin(), keys.end()).size(), keys.size()) << "a key stands twice";
      }
    });
  }
}

/// On every lane transfers stand in the order in which their data is ready, so none waits behind a later one.
TEST(Behaviours, ReadySendsGoFirst) {
  for (const Workload& workload : {make_workload(8, 2, 16, 1, 2), full(8, 2, 16)}) {
    for_every_policy(workload, [](const Plan& plan) {
      for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane) {
        double latest = 0;
        for (const Operator& op : plan.table.row(LaneId{lane})) {
          if (!op.is_transfer()) continue;
          EXPECT_GE(op.start, latest) << plan.policy << " lane " << lane;
          latest = op.start;
        }
      }
    });
  }
}

/// Encoder to generator past the LLM, on own devices, to several peers at once: the LLM and two generators.
TEST(Behaviours, SkippingConnections) {
  Workload w = full(4, 1, 12);
  w.pools.push_back(make_pool(w, "audio", PoolKind::generator, 1, 1));
  w.pools[0].lanes = {LaneId{4}, LaneId{5}};
  for (std::int32_t m = 0; m < 12; ++m) w.pools[0].owner[m] = m % 2;
  for (const std::size_t generator : {1, 2}) w.pools[generator].inputs.push_back(ModuleId{1});
  for_every_policy(w, [](const Plan&) {});
  w.pools[2].inputs = {ModuleId{1}};  // never meets the LLM
  w.transfer_latency = 0.25;
  for_every_policy(w, [](const Plan&) {});
}

Plan split(const Workload& workload) {
  return read_policy(
      workload, "format: nestor.policy/1\nlanes:\n- F0-1 I0 F2 W0 I1 I2 W1-2\n- F0 I0 F1 I1 W0 F2 I2 W1-2\n", "split");
}

TEST(Behaviours, SplitBackward) {
  Workload w = make_workload(2, 1, 3, 1, 2);
  w.llm.stash_bytes = 10;
  const Plan plan = split(w);
  expect_sound_everywhere(plan, "split");
  std::map<OpKind, int> rows;
  for (const Operator& op : plan.table.operators) ++rows[op.kind];
  EXPECT_EQ(rows[OpKind::backward_input], 6);
  EXPECT_EQ(rows[OpKind::backward_weight], 6);
  // One receive for each activation and each gradient, as with whole backwards: halves open none of their own.
  EXPECT_EQ(rows[OpKind::recv], 6);
  EXPECT_EQ(rows[OpKind::send], 6);
  // On the last lane: F0 1..2, I0 2..3, F1 3..4, I1 4..5, W0 5..6. The stash of 0 is freed by W0, not by I0.
  const auto bytes = bytes_over_time(plan)[1];
  const auto at = [&](double time) {
    std::int64_t held = 0;
    for (const BytesPoint& point : bytes) held = point.at <= time ? point.bytes : held;
    return held;
  };
  EXPECT_EQ(at(2.5), 10);
  EXPECT_EQ(at(3.5), 20);
  EXPECT_EQ(at(5.5), 20);
  EXPECT_EQ(at(6.0), 20);  // F2 has begun as W0 ended
  EXPECT_EQ(bytes.back().bytes, 0);

  for (const OpKind lost : {OpKind::backward_weight, OpKind::backward_input}) {
    Plan broken = plan;
    auto& operators = broken.table.operators;
    const auto found =
        std::find_if(operators.begin(), operators.end(), [&](const Operator& op) { return op.kind == lost; });
    const auto place = static_cast<std::uint32_t>(found - operators.begin());
    operators.erase(found);
    for (std::uint32_t& begin : broken.table.lane_begin) begin -= begin > place;
    EXPECT_FALSE(verify(broken).sound());
  }
}

TEST(Behaviours, AnyPlacement) {
  const auto placed = [](std::int32_t stages, std::int32_t chunks, const std::vector<int>& lanes) {
    Workload w = full(stages, chunks, 6);
    for (std::size_t s = 0; s < lanes.size(); ++s) w.llm.lanes[s] = LaneId{lanes[s]};
    return w;
  };
  for (const Workload& w : {
           full(1, 1, 6), full(1, 3, 6),  // a single lane with everything
           placed(2, 2, {0, 1, 1, 0}),    // a V: the first and the last stage on one lane
           placed(4, 1, {0, 1, 1, 2}),    // one lane with more stages than its neighbours
           placed(4, 1, {2, 0, 0, 0}),    // and with one lane empty of stages
       }) {
    for_every_policy(w, [](const Plan&) {});
  }
}

TEST(Behaviours, EveryTransferHasItsReader) {
  PlanRequest request;
  const Plan plan = make_plan(full(3, 1, 6), request);
  const auto rows = [&](OpKind kind) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < plan.table.operators.size(); ++i) {
      if (plan.table.operators[i].kind == kind) found.push_back(i);
    }
    return found;
  };
  for (const std::uint32_t i : rows(OpKind::recv)) {
    Plan twice = plan, lost = plan;
    auto& more = twice.table;
    more.operators.insert(more.operators.begin() + i, more.operators[i]);
    for (std::uint32_t& begin : more.lane_begin) begin += begin > i;
    EXPECT_FALSE(verify(twice, Transport::buffered).sound()) << "row " << i << " is received twice";
    auto& fewer = lost.table;
    fewer.operators.erase(fewer.operators.begin() + i);
    for (std::uint32_t& begin : fewer.lane_begin) begin -= begin > i;
    const Verdict verdict = verify(lost, Transport::buffered);
    ASSERT_FALSE(verdict.sound()) << "row " << i << " is sent to nobody";
    EXPECT_THAT(verdict.faults[0].what, HasSubstr("recv"));
  }
}

TEST(Behaviours, ThirtyLayersOverFourStages) {
  const std::vector<double> layers(30, 1);
  for (const double head : {0.0, 2.0, 7.5}) {
    const auto cut = partition_layers(layers, 4, 0.5, head);
    EXPECT_EQ(cut.front(), 0);
    EXPECT_EQ(cut.back(), 30);
    for (std::size_t part = 0; part < 4; ++part) EXPECT_LT(cut[part], cut[part + 1]);
    if (head > 7) {
      EXPECT_LT(cut[4] - cut[3], cut[2] - cut[1]) << "the head's stage has fewer layers";
    }
  }
}

}  // namespace
}  // namespace nestor::scheduler
