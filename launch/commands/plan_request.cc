#include <algorithm>
#include <filesystem>

#include <nestor/launch/commands/plan_request.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/policy_file.h>

namespace nestor::launch {
namespace {

/// A policy's name is one word: what has a folder, an ending or lies there is a file.
bool is_file(const std::string& policy) {
  auto known = scheduler::policy_names();
  if (std::find(known.begin(), known.end(), policy) != known.end()) return false;
  std::error_code error;
  return policy.find('/') != std::string::npos || policy.find('.') != std::string::npos ||
         std::filesystem::exists(policy, error);
}

}  // namespace

std::string policy_help() {
  std::string help;
  for (auto name : scheduler::policy_names()) help += std::string(name) + ", ";
  return help + "or a nestor.policy/1 file with an order of your own";
}

scheduler::Plan plan_by(const scheduler::Workload& workload, const std::string& policy,
                        std::optional<std::int32_t> extra_warmup, bool keep_memory_cap, bool may_recompute) {
  if (is_file(policy)) {
    if (extra_warmup) throw InputError("--extra-warmup", "has no meaning where a file gives the order");
    auto own = workload;
    if (!keep_memory_cap) own.memory_bytes_per_lane = 0;
    auto plan = scheduler::read_policy(own, read_text(policy), policy);
    plan.workload.memory_bytes_per_lane = workload.memory_bytes_per_lane;
    return plan;
  }
  scheduler::PlanRequest request;
  request.policy = policy;
  request.extra_warmup = extra_warmup;
  request.keep_memory_cap = keep_memory_cap;
  request.may_recompute = may_recompute;
  return scheduler::make_plan(workload, request);
}

}  // namespace nestor::launch
