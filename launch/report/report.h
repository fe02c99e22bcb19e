#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nestor/launch/metrics.h>
#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/timeline.h>

namespace nestor::launch {

/// A picture and what the model read in it.
struct Reading {
  std::string png;  ///< the file's bytes
  std::string truth, read;
  bool right = false;
};

/// What the model drew for a text, beside the picture of that name.
struct Drawing {
  std::string text;
  std::string drawn_png, truth_png;
};

/// All that the page of a run shows. Empty parts are left out.
struct ReportData {
  std::string title;        ///< the run folder's name
  std::string description;  ///< policy, stages, pools in words
  std::int64_t steps_planned = 0;
  std::vector<StepMetrics> metrics;
  std::shared_ptr<const scheduler::Plan> plan;
  std::optional<scheduler::Timeline> measured;
  std::vector<Reading> readings;  ///< some of those counted below
  std::int64_t read_right = 0, read_total = 0;
  std::int64_t held_out_right = 0, held_out_total = 0;  ///< pictures never trained on
  std::vector<Drawing> drawings;
  std::string config;  ///< config.yaml
};

/// One HTML page without outside parts: figures, loss curves, what was read and drawn, the planned step above the
/// measured one, activations in flight, speed. Light and dark by the reader's setting.
std::string write_report(const ReportData& data);

}  // namespace nestor::launch
