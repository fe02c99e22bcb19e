#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <nestor/scheduler/error.h>
#include <nestor/scheduler/render/text.h>

#include "plan_edit.h"

namespace nestor::scheduler::testing {
namespace {

using nlohmann::json;

TEST(Timeline, HoldsThePlansTimes) {
  const Plan plan = plan_of(shape("uneven"), "nested");
  const Timeline timeline = planned_timeline(plan);
  EXPECT_EQ(timeline.rows.size(), plan.table.operators.size());
  EXPECT_EQ(timeline.module_names, (std::vector<std::string>{"llm", "vision", "image"}));
  std::int64_t end = 0;
  std::pair<std::int32_t, std::int64_t> last{0, 0};
  for (const TimelineRow& row : timeline.rows) {
    const std::pair<std::int32_t, std::int64_t> at{row.lane, row.start_ns};
    EXPECT_LE(last, at);
    last = at;
    if (row.op.is_compute()) end = std::max(end, row.end_ns);
    if (row.op.is_transfer() && row.op.module == 1 && row.op.direction == Direction::activation) {
      EXPECT_EQ(row.bytes, 256);
      EXPECT_EQ(row.end_ns - row.start_ns, 375000000);  // 0.125 s + 256 B at 1024 B/s
    }
  }
  EXPECT_EQ(end, std::llround(plan.makespan * 1e9));
}

TEST(Timeline, ReadsWhatItWrites) {
  Timeline timeline = planned_timeline(plan_of(shape("everything"), "nested"));
  timeline.step = 17;
  timeline.source = "measured \"here\"";
  timeline.rows.front().wait_ns = 5;
  const std::string text = write_timeline(timeline);
  const Timeline again = read_timeline(text, "t.json");
  EXPECT_EQ(write_timeline(again), text);
  EXPECT_EQ(again.step, 17);
  EXPECT_EQ(again.lane_names, timeline.lane_names);
}

TEST(Timeline, RefusesBadInput) {
  const std::string good = R"({"lane":0,"op":"forward","module":"llm","microbatch":0,"start_ns":0,"end_ns":5})";
  auto document = [](const std::string& rows) { return R"({"format":"nestor.timeline/1","rows":[)" + rows + "]}"; };
  EXPECT_EQ(read_timeline(document(good), "t").rows.size(), 1u);
  for (const std::string& text : std::vector<std::string>{
           "", "[]", "{", "null", R"({"format":"nestor.plan/1","rows":[]})", R"({"format":"nestor.timeline/1"})",
           R"({"format":"nestor.timeline/1","rows":[],"more":1})",
           R"({"format":"nestor.timeline/1","rows":[],"step":-1})", document("1"),
           document(R"({"lane":-1,"op":"update","start_ns":0,"end_ns":0})"),
           document(R"({"lane":0,"op":"dance","module":"llm","microbatch":0,"start_ns":0,"end_ns":5})"),
           document(R"({"lane":0,"op":"forward","module":"llm","microbatch":0,"start_ns":9,"end_ns":5})"),
           document(R"({"lane":0,"op":"forward","module":"llm","microbatch":0,"start_ns":0.5,"end_ns":5})"),
           document(R"({"lane":0,"op":"forward","module":"llm","microbatch":0,"start_ns":1e300,"end_ns":5})"),
           document(R"({"lane":99999999,"op":"forward","module":"llm","microbatch":0,"start_ns":0,"end_ns":5})"),
           document(R"({"lane":0,"op":"forward","module":"llm","start_ns":0,"end_ns":5})"),
           document(R"({"lane":0,"op":"send","module":"llm","microbatch":0,"start_ns":0,"end_ns":5})")}) {
    EXPECT_THROW(read_timeline(text, "t.json"), Error) << text;
  }
  try {
    read_timeline(document(good + "," + R"({"lane":0,"op":3})"), "t.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "t.json:rows[1].op: is no text");
  }
}

TEST(Timeline, CountsActivationsAsThePlanDoes) {
  for (const std::string& name : shapes()) {
    const Plan plan = plan_of(shape(name), "nested");
    const auto curves = in_flight_over_time(planned_timeline(plan));
    for (std::size_t module = 0; module < plan.in_flight.size(); ++module)
      for (std::size_t lane = 0; lane < plan.in_flight[module].size(); ++lane) {
        double peak = 0;
        for (const InFlightPoint& point : curves[lane][module]) peak = std::max(peak, point.value);
        EXPECT_NEAR(peak, plan.in_flight[module][lane], 1e-9) << name << " module " << module << " lane " << lane;
        if (!curves[lane][module].empty()) {
          EXPECT_EQ(curves[lane][module].back().value, 0);
        }
      }
  }
}

/// What Perfetto needs: nesting slices, arrows that begin and end inside a slice, lanes in order.
TEST(Trace, FollowsTheRulesOfChromeJson) {
  for (const std::string name : {"uneven", "everything", "two_lanes"}) {
    const Plan plan = plan_of(shape(name), "nested");
    const json trace = json::parse(write_trace(planned_timeline(plan)));
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
    std::map<std::tuple<int, std::string, std::string>, int> starts, ends;
    std::map<int, int> order;
    std::size_t transfers = 0, counters = 0;
    for (const Operator& op : plan.table.operators) transfers += op.kind == OpKind::send;
    for (const json& event : trace.at("traceEvents"))
      if (event.at("ph") == "X")
        slices[{event.at("pid"), event.at("tid")}].push_back(
            {event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>()});
    auto inside = [&](const json& event) {
      const double ts = event.at("ts");
      for (const auto& [start, end] : slices[{event.at("pid"), event.at("tid")}])
        if (start <= ts && ts < end) return true;
      return false;
    };
    for (const json& event : trace.at("traceEvents")) {
      const std::string ph = event.at("ph");
      if (ph == "M" && event.at("name") == "process_sort_index")
        order[event.at("pid")] = event.at("args").at("sort_index");
      if (ph == "C") ++counters;
      if (ph != "s" && ph != "f") continue;
      ++(ph == "s" ? starts : ends)[{event.at("id"), event.at("cat"), event.at("name")}];
      EXPECT_TRUE(inside(event)) << event;
      if (ph == "f") {
        EXPECT_EQ(event.at("bp"), "e");
      }
    }
    EXPECT_EQ(starts.size(), transfers);
    EXPECT_EQ(starts, ends);
    EXPECT_GT(counters, 0u);
    EXPECT_EQ(order.size(), static_cast<std::size_t>(plan.table.lanes()));
    for (const auto& [pid, index] : order) EXPECT_EQ(pid, index);
    for (auto& [thread, list] : slices) {
      std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
      });
      std::vector<double> open;
      for (const auto& [start, end] : list) {
        while (!open.empty() && open.back() <= start + 1e-9) open.pop_back();
        if (!open.empty()) {
          ASSERT_LE(end, open.back() + 1e-6);
        }
        open.push_back(end);
      }
    }
  }
}

/// The grid of every policy at P4 M8, encoder alone and with a generator, and of two chunks.
class Grid : public ::testing::TestWithParam<std::string> {};

TEST_P(Grid, IsTheGoldenOne) {
  std::string text;
  for (const std::string name : {"text", "encoder", "plain", "chunks"}) {
    Workload workload = shape(name == "encoder" ? "plain" : name);
    if (name == "encoder") workload.pools.pop_back();
    const std::string title = name == "plain"    ? "encoder and generator"
                              : name == "chunks" ? "encoder, two chunks"
                                                 : name;
    text += title + "\n" + render_text(planned_timeline(plan_of(workload, GetParam())), 120) + "\n";
  }
  const std::string path = std::string(NESTOR_TEST_DATA) + "/grids/" + GetParam() + ".txt";
  if (std::getenv("NESTOR_WRITE_GOLDENS")) std::ofstream(path) << text;
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str())
      << "where the change is wanted, run with NESTOR_WRITE_GOLDENS=1 and look at the difference";
}

INSTANTIATE_TEST_SUITE_P(Policies, Grid, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (std::string_view name : policy_names()) names.emplace_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST(TextGrid, KeepsToItsWidth) {
  const Timeline timeline = planned_timeline(plan_of(shape("everything"), "nested"));
  for (std::int32_t width : {0, 40, 57, 80, 200, 1000}) {
    std::istringstream lines(render_text(timeline, width));
    std::string line;
    int lanes = 0;
    while (std::getline(lines, line) && !line.empty()) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(width, 40)));
      lanes += line.starts_with("lane");
    }
    EXPECT_EQ(lanes, 4);
  }
  EXPECT_FALSE(render_text(Timeline{}).empty());
}

}  // namespace
}  // namespace nestor::scheduler::testing
