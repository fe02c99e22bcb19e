#pragma once

#include <string_view>

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// Completes a schedule of a researcher's own, nestor.policy/1 (YAML or JSON; docs/formats.md has the language):
///
///     format: nestor.policy/1
///     name: eager
///     lanes:                       # in order; what is no list is one text
///       - F0-3.0 B0.0 ...          # F of microbatches 0 to 3 at stage 0, B, then the rest in the backbone's order
///       - [F0.1 F1.1, B0-1.1, EF4 vision:B0]
///
/// A lane's list is the order of its operators: F forward, B backward, I and W its halves, R recompute; then the
/// microbatch or a range of them and, for the LLM, a dot and the stage. Stages and pool members live on the lane that
/// names them, whatever the workload says. Where a pool's operators are not named, they are put where their lane would
/// be idle, within the pool's in_flight_cap, so that an LLM order can be tried alone.
///
/// Returns a complete plan: times, transfers, reductions, updates, peaks; `custom_backbone` unless the LLM's order is a
/// backbone's. Throws Error at source:line for what is malformed, stands twice, is missing or waits for ever, and
/// MemoryError where the workload's memory cap is broken.
Plan read_policy(const Workload& workload, std::string_view text, std::string_view source);

}  // namespace nestor::scheduler
