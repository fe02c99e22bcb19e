#pragma once
/// Inside scheduler/: a workload within a larger file.

#include <nestor/scheduler/document.h>
#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// Reads and validates the workload at `root`. Throws Error with the place of the fault.
Workload read_workload(const Field& root);

}  // namespace nestor::scheduler
