#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include <nestor/actors/job.h>
#include <nestor/modules/train/optimizer.h>

namespace nestor::launch {

/// The `run` section of nestor.train/1. Steps count from 1; an `_every` of 0 is never.
struct RunOptions {
  std::filesystem::path dir;
  std::uint64_t seed = 1;
  std::int64_t steps = 100;
  torch::Dtype dtype = torch::kFloat32;
  std::int64_t checkpoint_every = 100;
  std::int64_t keep_checkpoints = 3;
  std::int64_t eval_every = 50;
  std::int64_t eval_samples = 64;
  std::int64_t trace_every = 50;
  std::int64_t report_samples = 12;  ///< pictures of each kind in report.html; 0: none
  std::chrono::milliseconds step_deadline = std::chrono::minutes(10);
};

/// nestor.train/1 (docs/formats.md). `data` and `model` are read by modules/, or by the user's ModelBuilder.
struct TrainConfig {
  RunOptions run;
  YAML::Node data, model;
  actors::ScheduleOptions schedule;
  modules::OptimizerOptions optimizer;
  std::string source;  ///< the file's name, for errors
};

/// Reads `text`, with `overrides` ("a.b=value") over it. Strict: unknown keys, wrong types and values out of range are
/// InputErrors with path:line, or "--set key".
TrainConfig read_config(const std::string& text, const std::string& source, const std::vector<std::string>& overrides);

/// Every key with its value, as `read_config` reads it: what the run folder keeps.
std::string write_config(const TrainConfig& config);

}  // namespace nestor::launch
