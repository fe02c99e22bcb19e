#include <functional>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/verifier.h>
#include <nestor/tests/tools/random_workload.h>

namespace nestor::scheduler {
namespace {

using Json = nlohmann::json;

Plan small_plan() {
  Workload w = make_workload(2, 2, 4, 1, 2);
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1.5, 3));
  w.pools.push_back(make_pool(w, "image", PoolKind::generator, 2, 4));
  return make_plan(w, {});
}

TEST(PlanFile, WrittenAndReadAgainIsTheSame) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    PlanRequest request;
    request.policy = policy_names()[seed % policy_names().size()];
    const Plan plan = make_plan(tests::random_workload(seed), request);
    const std::string written = write_plan(plan);
    const Plan again = read_plan(written, "plan.json");
    ASSERT_EQ(write_plan(again), written);
    ASSERT_EQ(digest(again.table), digest(plan.table));
    ASSERT_EQ(again.makespan, plan.makespan);
    ASSERT_EQ(again.in_flight, plan.in_flight);
    ASSERT_TRUE(verify(again).sound());
  }
}

TEST(PlanFile, WorkloadMayFollowTheLanes) {
  const std::string written = write_plan(small_plan());
  Json plan = Json::parse(written);
  ASSERT_LT(plan.dump().find("\"lanes\":[{\"name\""), plan.dump().find("\"workload\""));  // keys are sorted
  EXPECT_EQ(write_plan(read_plan(plan.dump(), "p")), written);
}

TEST(PlanFile, BrokenOnesAreOneErrorWithItsPlace) {
  const Json good = Json::parse(write_plan(small_plan()));
  std::size_t send = 0, reduce = 0;
  const Json& ops = good["lanes"][1]["ops"];
  while (ops[send]["op"] != "send") ++send;
  while (ops[reduce]["op"] != "reduce") ++reduce;
  const std::string at_send = "p.json:lanes[1].ops[" + std::to_string(send) + "]";
  const std::string at_reduce = "p.json:lanes[1].ops[" + std::to_string(reduce) + "]";
  struct Case {
    std::function<void(Json&)> damage;
    std::string error;
  };
  const std::vector<Case> cases = {
      {[](Json& p) { p = Json::array(); }, "p.json: is no map"},
      {[](Json& p) { p["format"] = "nestor.plan/9"; }, "p.json:format: is not nestor.plan/1"},
      {[](Json& p) { p.erase("policy"); }, "p.json: has no 'policy'"},
      {[](Json& p) { p.erase("makespan"); }, "p.json: has no 'makespan'"},
      {[](Json& p) { p["makespan"] = -1; }, "p.json:makespan: is negative"},
      {[](Json& p) { p["makespan"] = "99"; }, "p.json:makespan: is no number"},
      {[](Json& p) { p["speed"] = 1; }, "p.json:'speed': is no key here"},
      {[](Json& p) { p["backbone"] = "mine"; }, "p.json:backbone: is not 'custom'"},
      {[](Json& p) { p["extra_warmup"] = -2; }, "p.json:extra_warmup: is negative"},
      {[](Json& p) {
         p["microbatch_order"] = {0, 1, 2, 2};
       },
       "p.json:microbatch_order[3]: makes this no permutation"},
      {[](Json& p) {
         p["microbatch_order"] = {0, 1};
       },
       "p.json:microbatch_order: has 2 entries"},
      {[](Json& p) { p["workload"]["llm"]["forward"][0] = -1; }, "p.json:workload.llm.forward[0]: is negative"},
      {[](Json& p) { p["workload"]["pipeline"]["stages"] = 0; }, "p.json:workload.pipeline.stages: must be at least 1"},
      {[](Json& p) { p["workload"] = 3; }, "p.json:workload: is no map"},
      {[](Json& p) { p["lanes"] = Json::object(); }, "p.json:lanes: is no list"},
      {[](Json& p) { p["lanes"].erase(1); }, "p.json:lanes: has 1 lanes, the workload needs 2"},
      {[](Json& p) { p["lanes"][0].erase("ops"); }, "p.json:lanes[0]: has no 'ops'"},
      {[](Json& p) { p["lanes"][0]["ops"] = 3; }, "p.json:lanes[0].ops: is no list"},
      {[](Json& p) { p["lanes"][0]["name"] = Json::array(); }, "p.json:lanes[0].name: is no text"},
      {[](Json& p) { p["lanes"][1]["ops"][0] = 7; }, "p.json:lanes[1].ops[0]: is no map"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["op"] = "sideward"; }, "p.json:lanes[1].ops[0].op: is no operator"},
      {[](Json& p) { p["lanes"][1]["ops"][0].erase("op"); }, "p.json:lanes[1].ops[0]: has no 'op'"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["module"] = "audio"; }, "p.json:lanes[1].ops[0]: 'audio' is no module"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["microbatch"] = 4; }, "p.json:lanes[1].ops[0]: microbatch 4 is none of 4"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["microbatch"] = -1; }, "microbatch -1 is none of 4"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["microbatch"] = 0.5; }, "ops[0].microbatch: '0.5' is no whole number"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["microbatch"] = 1ull << 40; },
       "ops[0].microbatch: '1099511627776' is out of range"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["stage"] = 99; }, "p.json:lanes[1].ops[0]"},
      {[](Json& p) { p["lanes"][1]["ops"][0].erase("start"); }, "p.json:lanes[1].ops[0]: has no 'start'"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["start"] = -3; }, "p.json:lanes[1].ops[0].start: is negative"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["end"] = -3; }, "p.json:lanes[1].ops[0].end: is before start"},
      {[](Json& p) { p["lanes"][1]["ops"][0]["colour"] = 3; }, "p.json:lanes[1].ops[0].'colour': is no key here"},
      {[&](Json& p) { p["lanes"][1]["ops"][send]["peer"] = 2; }, at_send + ": peer 2 is no lane"},
      {[&](Json& p) { p["lanes"][1]["ops"][send]["direction"] = "up"; }, at_send + ".direction: is neither"},
      {[&](Json& p) { p["lanes"][1]["ops"][send]["from"].erase("module"); }, at_send + ".from: has no 'module'"},
      {[&](Json& p) { p["lanes"][1]["ops"][send]["from"]["stage"] = -1; }, at_send + ".from.stage: is negative"},
      {[&](Json& p) { p["lanes"][1]["ops"][send]["to"] = "llm"; }, at_send + ".to: is no map"},
      {[&](Json& p) {
         p["lanes"][1]["ops"][reduce]["lanes"] = {0, 9};
       },
       at_reduce + ": lane 9 is not in the plan"},
      {[&](Json& p) {
         p["lanes"][1]["ops"][reduce]["lanes"] = {1, 0};
       },
       at_reduce + ".lanes[1]: is not in ascending"},
      {[&](Json& p) { p["lanes"][1]["ops"][reduce]["module"] = "audio"; }, at_reduce + ": 'audio' is no module"},
      {[](Json& p) { p["in_flight"]["audio"] = {1}; }, "p.json:in_flight.audio: is no module"},
      {[](Json& p) {
         p["in_flight"]["llm"] = {1, 1, 1};
       },
       "p.json:in_flight.llm: has more entries"},
      {[](Json& p) {
         p["in_flight"]["llm"] = {1, -1};
       },
       "p.json:in_flight.llm[1]: is negative"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Json damaged = good;
    cases[i].damage(damaged);
    try {
      read_plan(damaged.dump(), "p.json");
      ADD_FAILURE() << "case " << i << " is read: " << cases[i].error;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(cases[i].error)) << i;
    }
  }
}

/// Cut off anywhere, or with a byte changed anywhere, a plan file is read or is one Error.
TEST(PlanFile, TornAndScratchedFilesNeverCrash) {
  const std::string good = write_plan(small_plan());
  std::mt19937 random(1);
  std::size_t errors = 0;
  auto attempt = [&](const std::string& text) {
    try {
      verify(read_plan(text, "p.json"));
    } catch (const Error& error) {
      ++errors;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  };
  for (std::size_t length = 0; length < good.size() - 2; length += 23) attempt(good.substr(0, length));
  EXPECT_EQ(errors, (good.size() - 2 + 22) / 23);
  for (int i = 0; i < 2000; ++i) {
    std::string scratched = good;
    scratched[random() % scratched.size()] = static_cast<char>(random());
    attempt(scratched);
  }
}

TEST(Digest, KnowsOrderButNotTimes) {
  Plan plan = small_plan();
  const std::uint64_t before = digest(plan.table);
  for (Operator& op : plan.table.operators) op.end += 1;
  EXPECT_EQ(digest(plan.table), before);
  auto row = plan.table.row(LaneId{1});
  RowDigest walked;
  for (const Operator& op : row) walked.add(op);
  EXPECT_EQ(walked.value(), digest(plan.table, LaneId{1}));
  std::swap(row[0], row[1]);
  EXPECT_NE(digest(plan.table, LaneId{1}), walked.value());
  EXPECT_NE(digest(plan.table), before);
}

}  // namespace
}  // namespace nestor::scheduler
