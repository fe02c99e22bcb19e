#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nestor/scheduler/plan.h>

namespace nestor::launch {

/// What the flag --policy may say, for a command's help.
std::string policy_help();

/// A plan by the policy of that name or, where `policy` is no policy's name but a file, by the nestor.policy/1 in it.
/// `keep_memory_cap`, `may_recompute`: as PlanRequest's. Throws InputError and scheduler::Error.
scheduler::Plan plan_by(const scheduler::Workload& workload, const std::string& policy,
                        std::optional<std::int32_t> extra_warmup = {}, bool keep_memory_cap = true,
                        bool may_recompute = false);

}  // namespace nestor::launch
