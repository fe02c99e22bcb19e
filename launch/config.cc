#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include <nestor/launch/config.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/yaml_file.h>
#include <nestor/modules/config_section.h>

namespace nestor::launch {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostLanes = 4096;

const std::vector<std::pair<std::string, torch::Dtype>>& dtypes() {
  static const std::vector<std::pair<std::string, torch::Dtype>> table{
      {"float32", torch::kFloat32}, {"float64", torch::kFloat64}, {"bfloat16", torch::kBFloat16}};
  return table;
}

RunOptions read_run(modules::ConfigSection section) {
  RunOptions run;
  run.dir = section.text("dir", "runs/nestor");
  run.seed = static_cast<std::uint64_t>(section.integer("seed", 1, 0, kMost));
  run.steps = section.integer("steps", run.steps, 1, kMostSteps);
  std::vector<std::string> names;
  for (const auto& [name, dtype] : dtypes()) names.push_back(name);
  auto dtype = section.choice("dtype", names);
  run.dtype = dtypes()[static_cast<std::size_t>(std::find(names.begin(), names.end(), dtype) - names.begin())].second;
  run.checkpoint_every = section.integer("checkpoint_every", run.checkpoint_every, 0, kMostSteps);
  run.keep_checkpoints = section.integer("keep_checkpoints", run.keep_checkpoints, 1, kMostSteps);
  run.eval_every = section.integer("eval_every", run.eval_every, 0, kMostSteps);
  run.eval_samples = section.integer("eval_samples", run.eval_samples, 1, kMostSteps);
  run.trace_every = section.integer("trace_every", run.trace_every, 0, kMostSteps);
  run.report_samples = section.integer("report_samples", run.report_samples, 0, 256);
  auto seconds = section.number("step_deadline", 600, 0.001, 1e7);
  run.step_deadline = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  section.finish();
  return run;
}

std::int32_t lane(const modules::ConfigSection& pools, const std::string& name, const std::string& text) {
  std::int32_t value = -1;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < 0 || value >= kMostLanes)
    pools.fail(name, "names the lane \"" + one_line(text, 40) + "\"", "lanes are numbers from 0");
  return value;
}

actors::ScheduleOptions read_schedule(const YAML::Node& node, modules::ConfigSection section) {
  actors::ScheduleOptions schedule;
  schedule.policy = section.choice("policy", {"nested", "filled", "coupled", "decoupled", "serial"});
  auto count = [&](const char* key, std::int32_t fallback, std::int64_t most) {
    return static_cast<std::int32_t>(section.integer(key, fallback, 1, most));
  };
  schedule.stages = count("stages", schedule.stages, kMostLanes);
  schedule.chunks = count("chunks", schedule.chunks, 1024);
  schedule.microbatches = count("microbatches", schedule.microbatches, 1 << 20);
  schedule.microbatch_size = count("microbatch_size", schedule.microbatch_size, 1 << 20);

  auto pools = section.section("pools");
  for (const auto& name : pools.keys()) {
    auto texts = pools.texts(name, {});
    bool listed = node["pools"][name].IsSequence();
    std::vector<std::int32_t> lanes;
    if (listed) {
      for (const auto& text : texts) lanes.push_back(lane(pools, name, text));
    } else {
      auto size = pools.integer(name, 1, 1, kMostLanes);
      for (std::int64_t i = 0; i < size; ++i) lanes.push_back(static_cast<std::int32_t>(i % schedule.stages));
    }
    if (lanes.empty()) pools.fail(name, "has no member", "a size, or a list of lanes");
    schedule.pools.emplace(name, std::move(lanes));
  }
  section.finish();
  return schedule;
}

modules::OptimizerOptions read_optimizer(modules::ConfigSection section) {
  modules::OptimizerOptions optimizer;
  optimizer.kind = section.choice("kind", {"adamw"});
  optimizer.lr = section.number("lr", optimizer.lr, 0, 1e6);
  optimizer.beta1 = section.number("beta1", optimizer.beta1, 0, 0.9999999);
  optimizer.beta2 = section.number("beta2", optimizer.beta2, 0, 0.9999999);
  optimizer.epsilon = section.number("epsilon", optimizer.epsilon, 1e-30, 1);
  optimizer.weight_decay = section.number("weight_decay", optimizer.weight_decay, 0, 1e6);
  optimizer.clip = section.number("clip", optimizer.clip, 0, 1e12);
  optimizer.warmup = section.integer("warmup", optimizer.warmup, 0, kMostSteps);
  optimizer.decay_steps = section.integer("decay_steps", optimizer.decay_steps, 0, kMostSteps);
  optimizer.final_lr = section.number("final_lr", optimizer.final_lr, 0, 1);
  section.finish();
  return optimizer;
}

/// The shortest digits that give back the same double.
std::string digits(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

void emit_lanes(YAML::Emitter& out, const std::vector<std::int32_t>& lanes) {
  out << YAML::Flow << YAML::BeginSeq;
  for (auto lane : lanes) out << lane;
  out << YAML::EndSeq;
}

}  // namespace

TrainConfig read_config(const std::string& text, const std::string& source, const std::vector<std::string>& overrides) {
  auto root = parse_yaml(text, source);
  for (const auto& assignment : overrides) set_yaml(root, assignment);

  modules::ConfigSection top(root, source, "");
  TrainConfig config;
  config.source = source;
  if (!top.has("format"))
    throw InputError(source + ":format", "is missing", "the first line of a config is \"format: nestor.train/1\"");
  if (auto format = top.text("format", ""); format != "nestor.train/1")
    throw InputError(source + ":format", "is \"" + one_line(format, 60) + "\"", "this program reads nestor.train/1");
  config.run = read_run(top.section("run"));
  config.data = root["data"];
  config.model = root["model"];
  for (auto key : {"data", "model"})  // read by modules/ or by the user's own builder
    if (!top.has(key)) throw InputError(source + ":" + key, "is missing", "see docs/formats.md");
  config.schedule = read_schedule(root["schedule"], top.section("schedule"));
  config.optimizer = read_optimizer(top.section("optimizer"));
  top.finish();
  return config;
}

std::string write_config(const TrainConfig& config) {
  YAML::Emitter out;
  auto dtype = std::find_if(dtypes().begin(), dtypes().end(), [&](auto& d) { return d.second == config.run.dtype; });

  out << YAML::BeginMap << YAML::Key << "format" << YAML::Value << "nestor.train/1";
  out << YAML::Key << "run" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "dir" << YAML::Value << config.run.dir.string();
  out << YAML::Key << "seed" << YAML::Value << config.run.seed;
  out << YAML::Key << "steps" << YAML::Value << config.run.steps;
  out << YAML::Key << "dtype" << YAML::Value << dtype->first;
  out << YAML::Key << "checkpoint_every" << YAML::Value << config.run.checkpoint_every;
  out << YAML::Key << "keep_checkpoints" << YAML::Value << config.run.keep_checkpoints;
  out << YAML::Key << "eval_every" << YAML::Value << config.run.eval_every;
  out << YAML::Key << "eval_samples" << YAML::Value << config.run.eval_samples;
  out << YAML::Key << "trace_every" << YAML::Value << config.run.trace_every;
  out << YAML::Key << "report_samples" << YAML::Value << config.run.report_samples;
  out << YAML::Key << "step_deadline" << YAML::Value
      << digits(static_cast<double>(config.run.step_deadline.count()) / 1e3);
  out << YAML::EndMap;
  if (config.data.IsDefined() && !config.data.IsNull()) out << YAML::Key << "data" << YAML::Value << config.data;
  if (config.model.IsDefined() && !config.model.IsNull()) out << YAML::Key << "model" << YAML::Value << config.model;

  const auto& schedule = config.schedule;
  out << YAML::Key << "schedule" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "policy" << YAML::Value << schedule.policy;
  out << YAML::Key << "stages" << YAML::Value << schedule.stages;
  out << YAML::Key << "chunks" << YAML::Value << schedule.chunks;
  out << YAML::Key << "microbatches" << YAML::Value << schedule.microbatches;
  out << YAML::Key << "microbatch_size" << YAML::Value << schedule.microbatch_size;
  if (!schedule.pools.empty()) {
    out << YAML::Key << "pools" << YAML::Value << YAML::BeginMap;
    for (const auto& [name, lanes] : schedule.pools) {
      out << YAML::Key << name << YAML::Value;
      emit_lanes(out, lanes);
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap;

  const auto& optimizer = config.optimizer;
  out << YAML::Key << "optimizer" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "kind" << YAML::Value << optimizer.kind;
  out << YAML::Key << "lr" << YAML::Value << digits(optimizer.lr);
  out << YAML::Key << "beta1" << YAML::Value << digits(optimizer.beta1);
  out << YAML::Key << "beta2" << YAML::Value << digits(optimizer.beta2);
  out << YAML::Key << "epsilon" << YAML::Value << digits(optimizer.epsilon);
  out << YAML::Key << "weight_decay" << YAML::Value << digits(optimizer.weight_decay);
  out << YAML::Key << "clip" << YAML::Value << digits(optimizer.clip);
  out << YAML::Key << "warmup" << YAML::Value << optimizer.warmup;
  out << YAML::Key << "decay_steps" << YAML::Value << optimizer.decay_steps;
  out << YAML::Key << "final_lr" << YAML::Value << digits(optimizer.final_lr);
  out << YAML::EndMap << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace nestor::launch
