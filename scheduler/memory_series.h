#pragma once
/// Inside scheduler/: the bytes of a plan whose orders have been run already.

#include <vector>

#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler {

/// Runs a plan's orders: `state` then has the earliest times. Throws Error at the first fault.
void run_orders(verification::State& state);
/// Has the workload any bytes to count?
bool counts_bytes(const Workload& workload);
/// memory.h; `state` has passed `run_orders`. Sorts each lane's changes, else linear.
std::vector<std::vector<BytesPoint>> bytes_over_time(const verification::State& state);

}  // namespace nestor::scheduler
