#pragma once

#include <cstdint>
#include <optional>

#include <nestor/scheduler/lane_orders.h>
#include <nestor/scheduler/workload.h>

/// Policies are pure functions from a workload to the order of every lane. What each assumes and promises stands at its
/// declaration; the rules are in docs/schedule.md. None of them reorders the LLM's operators.
namespace nestor::scheduler::policies {

struct Schedule {
  LaneOrders orders;
  std::int32_t extra_warmup = 0;  ///< D: forwards added to each lane's warm-up
};

enum class Effort : std::uint8_t {
  replan,  ///< what a step of its own costs affords: a millisecond for some thousand operators, ten with a generator
  full,    ///< tens of milliseconds, for plans that serve many steps
};

struct Options {
  std::optional<std::int32_t> extra_warmup;  ///< fix D; none: the policy searches
  Effort effort = Effort::full;
};

/// The workload as `coupled` runs it: every encoder is one member on the first stage's lane, every generator one on the
/// last stage's.
Workload coupled_workload(const Workload& workload);

/// Modalities inside the pipeline, what a user has without nesting: an encoder's forward just before the LLM's first
/// forward of its microbatch, its backward just after the last; a generator just after the last stage's forward.
/// Assumes the workload of `coupled_workload`. Bounded activations; every microbatch waits for its slowest part.
Schedule coupled(const Workload& workload, const Dependencies& dependencies, const Options& options);

/// Unlimited memory: all encoder forwards, the LLM pipeline, all encoder backwards, members in parallel; with a
/// generator all LLM forwards, the generator, all LLM backwards. Fast; activations grow with M. The bar for `nested`.
Schedule decoupled(const Workload& workload, const Dependencies& dependencies, const Options& options);

/// The nested pipeline: the LLM's schedule runs as the backbone, its clock is stopped on every lane alike while a round
/// of pool work passes, so that no LLM operator is reordered and activations stay bounded. Searches D where there is a
/// generator. Where rounds lose to `decoupled` (small, skewed or far pools, unequal costs) or hold more than their cap,
/// microbatches are placed one by one instead. A member holds at most its pool's in_flight_cap, 4 * ceil(P / size) by
/// default. Throws Error if a given D deadlocks or nothing fits a given cap.
Schedule nested(const Workload& workload, const Dependencies& dependencies, const Options& options);

/// What `nested` would roughly reach, seconds, for a few of its tries: to compare arrangements of one step. Infinite
/// where none came through.
double probe(const Workload& workload, const Dependencies& dependencies, const Options& options);

/// True where every pool is one member on the lane that `coupled` would use: `nested` is never above `coupled` there.
bool is_coupled_placement(const Workload& workload);

/// Beyond nesting: pool operators also use the idle windows of the backbone's own bubble, within caps on activations in
/// flight (a pool's in_flight_cap; 4 for encoders or what the LLM's order forces, 2 for generators). `plain` is the
/// workload's nested schedule; D and so the LLM's activations are its. List scheduling under several rules, then a
/// local search where the plan is small. Never longer than `plain` where that keeps within the caps; `plain` itself
/// where neither does.
Schedule filled(const Workload& workload, const Dependencies& dependencies, Schedule plain, Effort effort);

/// Has any microbatch a generator's rows? (Then B(m, last) waits for a generator, and warm-up matters.)
bool has_generator_rows(const Workload& workload);

}  // namespace nestor::scheduler::policies
