#include <algorithm>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/simulator.h>

namespace nestor::scheduler {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

PlanRequest with_policy(const std::string& policy) {
  PlanRequest request;
  request.policy = policy;
  return request;
}

/// The figures of an independent simulator.
TEST(Golden, EveryWorkloadGivesItsFigures) {
  const std::string folder = NESTOR_TEST_DATA "/golden/";
  const auto expected = nlohmann::json::parse(read_file(folder + "expected.json"));
  ASSERT_GE(expected.size(), 14u);
  for (const auto& [name, figures] : expected.items()) {
    SCOPED_TRACE(name);
    const Workload workload = read_workload(read_file(folder + name + ".yaml"), name);
    Workload backbone = workload;
    backbone.pools.clear();
    EXPECT_EQ(make_plan(backbone, with_policy("decoupled")).makespan, figures["backbone_makespan"].get<double>());
    EXPECT_EQ(make_plan(workload, with_policy("decoupled")).makespan, figures["decoupled_makespan"].get<double>());
    const Plan nested = make_plan(workload, with_policy("nested"));
    EXPECT_EQ(nested.makespan, figures["nested_makespan"].get<double>());
    EXPECT_EQ(nested.extra_warmup, figures["extra_warmup"].get<int>());
    EXPECT_EQ(simulate(nested).work_bound, figures["work_bound"].get<double>());
    auto llm = nested.in_flight[0];
    llm.resize(workload.stages);
    EXPECT_EQ(llm, figures["llm_in_flight"].get<std::vector<double>>());
    for (std::size_t i = 0; i < workload.pools.size(); ++i) {
      const auto& peaks = nested.in_flight[i + 1];
      EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()),
                figures["pool_in_flight"][workload.pools[i].name].get<double>());
    }
  }
}

struct TableRow {
  std::int32_t P, V, M;
  bool generator;
  double backbone, coupled, decoupled, nested;
  std::int32_t D;
  double encoder_in_flight;
};

/// The table of docs/schedule.md.
TEST(Golden, TableOfTheDocumentation) {
  const TableRow rows[] = {
      {4, 1, 16, false, 57, 121.5, 75, 75, 0, 2},
      {4, 1, 16, true, 57, 157.5, 99, 99, 3, 3},
      {8, 1, 64, true, 213, 601.5, 297, 297, 8, 3},
      {4, 2, 16, false, 52.5, 120, 70.5, 70.5, 0, 3},
  };
  for (const TableRow& row : rows) {
    SCOPED_TRACE(testing::Message() << "P" << row.P << " V" << row.V << " M" << row.M);
    Workload workload = make_workload(row.P, row.V, row.M, 1, 2);
    EXPECT_EQ(make_plan(workload, with_policy("nested")).makespan, row.backbone);
    workload.pools.push_back(make_pool(workload, "vision", PoolKind::encoder, 1.5, 3));
    if (row.generator) workload.pools.push_back(make_pool(workload, "image", PoolKind::generator, 2, 4));
    EXPECT_EQ(make_plan(workload, with_policy("coupled")).makespan, row.coupled);
    EXPECT_EQ(make_plan(workload, with_policy("decoupled")).makespan, row.decoupled);
    const Plan nested = make_plan(workload, with_policy("nested"));
    EXPECT_EQ(nested.makespan, row.nested);
    EXPECT_EQ(nested.extra_warmup, row.D);
    EXPECT_THAT(nested.in_flight[1], testing::Each(row.encoder_in_flight));
  }
}

}  // namespace
}  // namespace nestor::scheduler
