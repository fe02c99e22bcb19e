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

/// The plan's own times as a timeline. Transfers without times of their own (free ones) stand where the data is ready:
/// both ends at the end of the producer.
Timeline planned_timeline(const Plan& plan);
std::string write_timeline(const Timeline& timeline);                    ///< nestor.timeline/1 JSON
Timeline read_timeline(std::string_view json, std::string_view source);  ///< throws Error

/// Microbatches of one module in flight on one lane from `at_ns` on: their forward has begun, their backward has not
/// ended (with a split backward: its weight half). The LLM in units of the lane's full share, as in Plan::in_flight.
/// Rows without a backward keep nothing and are not counted.
struct InFlightPoint {
  std::int64_t at_ns = 0;
  double value = 0;
};
/// [lane][module], each by time; modules without rows on a lane have no points.
std::vector<std::vector<std::vector<InFlightPoint>>> in_flight_over_time(const Timeline& timeline);

/// Chrome JSON that Perfetto opens: a process per lane in order, threads for compute, sends, receives and host, a flow
/// arrow per transfer, counters for activations in flight.
std::string write_trace(const Timeline& timeline);

}  // namespace nestor::scheduler
