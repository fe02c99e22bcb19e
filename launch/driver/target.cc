#include <utility>

#include <nestor/launch/driver/target.h>

namespace nestor::launch {

using Kind = JobRequest::Kind;

void DriverTarget::policy(const std::string& name) {
  ask({Kind::policy, name, 0, {}}).value();
}

void DriverTarget::resize(const std::string& pool, std::int32_t size) {
  ask({Kind::resize, pool, size, {}}).value();
}

void DriverTarget::resize(const std::string& pool, const std::vector<std::int32_t>& lanes) {
  ask({Kind::move, pool, 0, lanes}).value();
}

void DriverTarget::set(const std::string& assignment) {
  ask({Kind::set, assignment, 0, {}}).value();
}

std::optional<scheduler::Plan> DriverTarget::plan() {
  const std::string text = ask({Kind::plan, "", 0, {}}).value();
  if (text.empty()) return std::nullopt;
  return scheduler::read_plan(text, "the job's plan");
}

scheduler::Timeline DriverTarget::trace() {
  return scheduler::read_timeline(ask({Kind::trace, "", 0, {}}).value(), "the job's step");
}

std::filesystem::path DriverTarget::checkpoint() {
  return ask({Kind::checkpoint, "", 0, {}}).value();
}

}  // namespace nestor::launch
