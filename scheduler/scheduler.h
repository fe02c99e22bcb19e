#pragma once
/// The public header of scheduler/: when and where every operator of a step runs. Pure, no clock, no threads.

#include <nestor/scheduler/batching.h>
#include <nestor/scheduler/partition.h>
#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/timeline.h>
#include <nestor/scheduler/verifier.h>
#include <nestor/scheduler/workload.h>
