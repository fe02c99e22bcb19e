#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/scheduler/model_costs.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/sweep.h>

namespace nestor::scheduler {
namespace {

using testing::HasSubstr;

std::string file(const std::string& path) {
  std::ifstream in(std::string(NESTOR_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Small numbers that can be checked by hand: width 2, one head of 2, ffn 3 (two matrices), one layer of each.
constexpr const char* kTiny = R"(
format: nestor.model/1
samples: 2
llm: {layers: 1, width: 2, heads: 1, ffn: 3, gated: false, vocabulary: 10, sequence: 4}
device: {flops: 1000, efficiency: 0.5, memory_bytes: 100000, parameter_bytes: 6, optimizer_bytes: 12, optimizer_shards: 2}
)";

TEST(ModelCosts, ByHand) {
  const ModelDescription model = read_model(kTiny, "tiny.yaml");
  const Workload w = model_workload(model, {});
  // Projections 4 * 2 * 2 = 16, feed-forward 2 * 2 * 3 = 12, norms 4; embedding 20, head 20, last norm 2.
  EXPECT_EQ(parameters(model, kLlm), 16 + 12 + 4 + 20 + 20 + 2);
  // A sample of 4 tokens: 2 * 28 * 4 weights' and 2 * 4 * 4 * 2 causal attention's operations; head 2 * 20 * 4.
  const double flops = 2 * (2 * 28 * 4 + 64 + 160);
  EXPECT_DOUBLE_EQ(w.llm.forward[0], flops / 500);
  EXPECT_DOUBLE_EQ(w.llm.backward[0], 2 * flops / 500);
  EXPECT_EQ(w.llm.message_bytes, 8 * 2 * 2);
  // 4 * 2 inputs, 4 query and output, 4 key and value, 6 within the feed-forward: 22 elements of 2 bytes, 8 tokens.
  EXPECT_EQ(w.llm.stash_bytes, 22 * 2 * 8);
  // (32 + 20 + 20) parameters of 6 + 12 / 2 bytes, logits 8 * 10 * 4.
  EXPECT_EQ(w.resident_bytes, (std::vector<std::int64_t>{72 * 12 + 320}));
  EXPECT_EQ(w.memory_bytes_per_lane, 100000);
}

TEST(ModelCosts, KnownSizes) {
  const ModelDescription model = read_model(file("examples/workloads/generation_30b_moe.yaml"), "model");
  EXPECT_NEAR(static_cast<double>(parameters(model, kLlm)), 30.5e9, 0.2e9);         // Qwen3-30B-A3B states 30.5
  EXPECT_NEAR(static_cast<double>(parameters(model, ModuleId{1})), 1.3e9, 0.05e9);  // the vision transformer
  EXPECT_NEAR(static_cast<double>(parameters(model, ModuleId{2})), 20.4e9, 0.2e9);  // the diffusion transformer
  const Workload w = model_workload(model, {.stages = 8, .chunks = 1, .microbatches = 16});
  EXPECT_EQ(w.pools.size(), 2u);
  EXPECT_EQ(w.resident_bytes.size(), 8u);
  EXPECT_GT(w.resident_bytes[0], w.resident_bytes[1]);  // the embedding
}

TEST(ModelCosts, MistakesAreOneErrorWithTheirLine) {
  const auto error_of = [](std::string text, const std::string& what, const std::string& by) {
    text.replace(text.find(what), what.size(), by);
    try {
      read_model(text, "m.yaml");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of(kTiny, "layers: 1", "layers: 0"), HasSubstr("m.yaml:4: llm.layers: is 0"));
  EXPECT_THAT(error_of(kTiny, "width: 2", "width: wide"), HasSubstr("m.yaml:4: llm.width"));
  EXPECT_THAT(error_of(kTiny, "heads: 1", "heads: 3"), HasSubstr("does not divide width"));
  EXPECT_THAT(error_of(kTiny, "vocabulary: 10", "vocab: 10"), HasSubstr("m.yaml:4"));
  EXPECT_THAT(error_of(kTiny, "flops: 1000", "flops: 0"), HasSubstr("m.yaml:5: device.flops"));
  EXPECT_THAT(error_of(kTiny, "samples: 2", "samples: 99999999999"), HasSubstr("m.yaml:3"));
  EXPECT_THAT(error_of(kTiny, "width: 2, heads: 1, ffn: 3", "width: 16777216, heads: 1, ffn: 16777216"),
              HasSubstr("cannot be"));
}

TEST(Reshape, KeepsTheWholeCost) {
  Workload w = make_workload(4, 1, 4, 1, 2);
  w.llm.stash_bytes = 10;
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1, 1));
  w.pools[0].absent = {0, 1, 0, 0};
  const Workload other = reshape(w, {.stages = 2, .chunks = 2, .microbatches = 6});
  EXPECT_EQ(other.llm.forward, (std::vector<double>{1, 1, 1, 1}));
  EXPECT_EQ(other.llm.stash_bytes, 10);
  EXPECT_EQ(other.pools[0].lanes.size(), 2u);
  EXPECT_EQ(other.pools[0].absent, (std::vector<std::uint8_t>{0, 1, 0, 0, 0, 1}));
  const Workload own =
      reshape(w, {.stages = 2, .chunks = 1, .microbatches = 4, .own_devices = true, .pool_sizes = {3}});
  EXPECT_EQ(own.pools[0].lanes, (std::vector<LaneId>{LaneId{2}, LaneId{3}, LaneId{4}}));
  EXPECT_EQ(write_workload(reshape(w, {.stages = 4, .chunks = 1, .microbatches = 4})), write_workload(w));
}

/// F 1, B 2 a lane of four, M 4 and 8: 1F1B takes (M + 3) * 3 seconds; its first lane keeps 4 * 10 bytes.
TEST(Sweep, BestFirstAndWhyNot) {
  Workload w = make_workload(4, 1, 4, 1, 2);
  w.llm.stash_bytes = 10;
  SweepAxes axes;
  axes.stages = {4};
  axes.chunks = {1};
  axes.microbatches = {4, 8};
  axes.policies = {"nested", "nonsense"};
  axes.recompute = {false, true};
  axes.memory_bytes = 40;
  std::size_t last = 0;
  const auto rows = sweep([&](const Shape& shape) { return reshape(w, shape); }, axes, 3,
                          [&](std::size_t done, std::size_t total) {
                            EXPECT_EQ(done, ++last);
                            EXPECT_EQ(total, 8u);
                          });
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(last, 8u);
  EXPECT_EQ(rows[0].configuration.shape.microbatches, 8);
  EXPECT_EQ(rows[0].makespan, 33);
  EXPECT_DOUBLE_EQ(rows[0].per_microbatch, 33.0 / 8);
  EXPECT_EQ(rows[0].peak_bytes, 40);
  EXPECT_FALSE(rows[0].configuration.shape.recompute);
  EXPECT_EQ(rows[3].verdict, SweepVerdict::fits);
  EXPECT_EQ(rows[4].verdict, SweepVerdict::policy);
  EXPECT_THAT(rows[4].why, HasSubstr("unknown"));

  axes.memory_bytes = 35;
  axes.policies = {"nested"};
  axes.recompute = {false};
  const auto out = sweep([&](const Shape& shape) { return reshape(w, shape); }, axes, 1);
  EXPECT_EQ(out[0].verdict, SweepVerdict::memory);
  EXPECT_EQ(out[0].over_bytes, 5);
}

TEST(Sweep, EqualOnAnyNumberOfThreads) {
  const ModelDescription model = read_model(file("examples/workloads/understanding_30b_moe.yaml"), "model");
  SweepAxes axes;
  axes.stages = {2, 8, 64};
  axes.chunks = {1, 2};
  axes.microbatches = {16};
  axes.policies = {"coupled", "decoupled", "nested"};
  const auto of = [&](const Shape& shape) { return model_workload(model, shape); };
  const auto one = sweep(of, axes, 1), three = sweep(of, axes, 3);
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].makespan, three[i].makespan);
    EXPECT_EQ(one[i].why, three[i].why);
  }
  EXPECT_EQ(one.back().verdict, SweepVerdict::shape);
  EXPECT_THAT(one.back().why, HasSubstr("more than 48 layers"));
}

TEST(Sweep, RefusesTooMany) {
  SweepAxes axes;
  axes.stages.assign(1000, 2);
  axes.chunks = {1};
  axes.microbatches.assign(1000, 2);
  axes.policies = {"nested"};
  EXPECT_THROW(configurations(axes), Error);
}

}  // namespace
}  // namespace nestor::scheduler
