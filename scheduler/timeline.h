#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// A row of a timeline: what a lane did, when. The simulator makes them from a plan, executors from a step, so every
/// view shows either.
struct TimelineRow {
  std::int32_t lane = 0;
  Operator op;                ///< start and end unused; see below
  std::int64_t start_ns = 0;  ///< from the step's start
  std::int64_t end_ns = 0;
  std::int64_t wait_ns = 0;  ///< of it, waiting for inputs (the lane was blocked)
  std::int64_t bytes = 0;    ///< transfers: payload
};

/// nestor.timeline/1.
struct Timeline {
  std::int64_t step = 0;
  std::string source;  ///< "planned" or "measured"
  std::vector<std::string> lane_names;
  std::vector<std::string> module_names;  ///< index: module of an operator
  std::vector<TimelineRow> rows;          ///< by lane, then start
};

Timeline planned_timeline(const Plan& plan);
std::string write_timeline(const Timeline& timeline);                    ///< nestor.timeline/1 JSON
Timeline read_timeline(std::string_view json, std::string_view source);  ///< throws Error
/// Chrome JSON that Perfetto opens: a process per lane in order, threads for compute, sends, receives and host, a flow
/// arrow per transfer, counters for activations in flight.
std::string write_trace(const Timeline& timeline);

}  // namespace nestor::scheduler
