#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/job_requests.h>
#include <nestor/launch/error.h>
#include <nestor/launch/exit.h>
#include <nestor/launch/files.h>
#include <nestor/modules/suggest.h>
#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/timeline.h>

namespace nestor::launch {
namespace {

void change_policy(const std::string& policy, StandingTraining& training) {
  const auto names = scheduler::policy_names();
  const std::vector<std::string> known(names.begin(), names.end());
  if (std::find(known.begin(), known.end(), policy) == known.end())
    throw InputError("policy", "there is no policy \"" + one_line(policy, 60) + "\"",
                     modules::did_you_mean(policy, known));
  training.job().set_policy(policy);
}

void place_pool(const std::string& pool, const std::vector<std::int32_t>& lanes, StandingTraining& training) {
  std::vector<std::string> known;
  for (const auto& [name, members] : pools_of(training)) known.push_back(name);
  if (std::find(known.begin(), known.end(), pool) == known.end())
    throw InputError("resize", "there is no pool \"" + one_line(pool, 60) + "\"", modules::did_you_mean(pool, known));
  if (lanes.empty()) throw InputError("resize " + pool, "a pool has at least one member");
  training.job().resize(pool, lanes);
}

std::vector<std::int32_t> spread(const JobRequest& request, StandingTraining& training) {
  const std::int32_t most = training.job().schedule().microbatches;
  if (request.size < 1 || request.size > most)
    throw InputError("resize " + request.name, fmt::format("cannot have {} members", request.size),
                     fmt::format("1 to {}, a microbatch each", most));
  std::vector<std::int32_t> lanes;
  for (std::int32_t member = 0; member < request.size; ++member)
    lanes.push_back(member % training.job().schedule().stages);
  return lanes;
}

std::string members_text(const std::string& pool, const std::vector<std::int32_t>& lanes) {
  return fmt::format("pool {}: on {} {} from the next step on", pool, lanes.size() == 1 ? "lane" : "lanes",
                     fmt::join(lanes, ", "));
}

CarriedOut carried_out(const JobRequest& request, StandingTraining& training) {
  switch (request.kind) {
    case JobRequest::Kind::policy:
      change_policy(request.name, training);
      return {{}, "policy " + request.name + " from the next step on"};
    case JobRequest::Kind::resize:
    case JobRequest::Kind::move: {
      const auto lanes = request.kind == JobRequest::Kind::move ? request.lanes : spread(request, training);
      place_pool(request.name, lanes, training);
      return {{}, members_text(request.name, lanes)};
    }
    case JobRequest::Kind::set:
      training.set(request.name);
      return {{}, request.name + " from the next step on"};
    case JobRequest::Kind::plan: {
      const auto plan = training.job().plan();
      return {{plan ? scheduler::write_plan(*plan) : "", 0, ""}, ""};
    }
    case JobRequest::Kind::trace:
      return {{scheduler::write_timeline(training.traced_step()), 0, ""}, ""};
    case JobRequest::Kind::checkpoint: {
      const auto folder = training.checkpoint().string();
      return {{folder, 0, ""}, "saved " + folder};
    }
  }
  throw InputError("job", "was asked for what it does not know");
}

}  // namespace

std::string JobAnswer::value() && {
  if (code == 0) return std::move(text);
  const auto colon = error.find(": ");
  const std::string where = colon == std::string::npos ? "job" : error.substr(0, colon);
  const std::string what = colon == std::string::npos ? error : error.substr(colon + 2);
  if (code == bad_input) throw InputError(where, what);
  throw WorkError(where, what);
}

JobAnswer answer_of(const std::exception_ptr& error) {
  JobAnswer answer;
  try {
    std::rethrow_exception(error);
  } catch (const actors::CallFailed& failed) {
    if (failed.cause()) {
      std::tie(answer.code, answer.error) = exit_of(failed.cause());
      if (answer.code == bad_input) return answer;  // what a lane found wrong with what was asked
    }
    std::tie(answer.code, answer.error) = exit_of(error);
  } catch (...) {
    std::tie(answer.code, answer.error) = exit_of(error);
  }
  return answer;
}

CarriedOut carry_out(const JobRequest& request, StandingTraining& training) {
  try {
    return carried_out(request, training);
  } catch (...) {
    return {answer_of(std::current_exception()), ""};
  }
}

std::map<std::string, std::vector<std::int32_t>> pools_of(StandingTraining& training) {
  std::map<std::string, std::vector<std::int32_t>> pools;
  const actors::ScheduleOptions& schedule = training.job().schedule();
  for (const auto& node : training.model().nodes()) {
    if (node.kind != modules::Model::Kind::encoder && node.kind != modules::Model::Kind::generator) continue;
    auto& lanes = pools[node.name];
    if (auto found = schedule.pools.find(node.name); found != schedule.pools.end()) {
      lanes = found->second;
    } else {
      for (std::int32_t lane = 0; lane < schedule.stages; ++lane) lanes.push_back(lane);
    }
  }
  return pools;
}

}  // namespace nestor::launch
