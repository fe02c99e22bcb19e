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

/// The workload as `coupled` runs it: every encoder is one member on the first stage's lane, every generator one on the
/// last stage's.
Workload coupled_workload(const Workload& workload);

/// Modalities inside the pipeline, what a user has without nesting: an encoder's forward just before the LLM's first
/// forward of its microbatch, its backward just after the last; a generator just after the last stage's forward.
/// Assumes the workload of `coupled_workload`. Bounded activations; every microbatch waits for its slowest part.
Schedule coupled(const Workload& workload, const Dependencies& dependencies, std::optional<std::int32_t> extra_warmup);

/// Unlimited memory: all encoder forwards, the LLM pipeline, all encoder backwards, members in parallel; with a
/// generator all LLM forwards, the generator, all LLM backwards. Fast; activations grow with M. The bar for `nested`.
Schedule decoupled(const Workload& workload, const Dependencies& dependencies,
                   std::optional<std::int32_t> extra_warmup);

/// The nested pipeline: the LLM's schedule runs as the backbone, its clock is stopped on every lane alike while a round
/// of pool work passes, so that no LLM operator is reordered and activations stay bounded. Searches D where there is a
/// generator. Throws Error if a given D deadlocks.
Schedule nested(const Workload& workload, const Dependencies& dependencies, std::optional<std::int32_t> extra_warmup);

/// Beyond nesting: pool operators also use the idle windows of the backbone's own bubble, within caps on activations in
/// flight (a pool's in_flight_cap; 4 for encoders or what the LLM's order forces, 2 for generators), LLM activations as
/// nested's. List scheduling under several rules, then a local search where the plan is small. Never longer than
/// `nested` where that keeps within the same caps. Throws Error where nothing fits the caps.
Schedule filled(const Workload& workload, const Dependencies& dependencies, std::optional<std::int32_t> extra_warmup);

/// Has any microbatch a generator's rows? (Then B(m, last) waits for a generator, and warm-up matters.)
bool has_generator_rows(const Workload& workload);

}  // namespace nestor::scheduler::policies
