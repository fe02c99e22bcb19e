#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

struct PlanRequest {
  std::string policy = "nested";     ///< coupled | decoupled | nested | filled
  std::vector<Reduction> tied = {};  ///< further reductions (tied weights); a pool's own are added by itself
  std::optional<std::int32_t> extra_warmup = {};  ///< fix D; none: the policy searches
  bool keep_memory_cap = true;  ///< honour the workload's memory cap (memory.h); else plan as if there were none
  bool may_recompute = false;   ///< to keep the cap, modules may be made to recompute that do not yet
};

/// Makes a plan: order of every lane, transfers lowered (pair-atomic order), reduce and update rows, times, peaks.
/// Where microbatches differ in cost or lack a modality, nested and filled also choose their order and owners
/// (arrange.h): the plan and its workload are then in the plan's own numbering, see Plan::microbatch_order. Pure: equal
/// inputs give equal plans, bit for bit on any machine. Throws Error on a workload that fails `validate` or an unknown
/// policy (the error lists those that exist), MemoryError where no plan of the policy keeps within the memory cap.
Plan make_plan(const Workload& workload, const PlanRequest& request);

/// Names `make_plan` accepts, in the order they are documented.
std::vector<std::string_view> policy_names();

}  // namespace nestor::scheduler
