#include <csignal>

#include <nestor/launch/cluster/agent.h>

namespace nestor::launch {

Agent::Agent(Start start, Report report) : start_(std::move(start)), report_(std::move(report)) {}

void Agent::describe(actors::MethodTable<Agent>& table) {
  table.type("agent").method("start", &Agent::start).method("kill", &Agent::kill).method("kill_all", &Agent::kill_all);
}

std::int64_t Agent::start(std::int32_t lane, std::uint64_t generation) {
  running_.erase(lane);
  auto pid = std::make_shared<std::atomic<std::int64_t>>(0);
  auto child = start_(lane, generation, [me = self(this), lane, generation, pid](std::string cause) {
    me.run([lane, generation, pid, cause](Agent& agent) { agent.ended(lane, generation, *pid, cause); });
  });
  *pid = child->pid();
  running_[lane] = {generation, std::move(child)};
  return *pid;
}

void Agent::ended(std::int32_t lane, std::uint64_t generation, std::int64_t pid, const std::string& cause) {
  if (const auto found = running_.find(lane); found != running_.end() && found->second.generation == generation)
    running_.erase(found);
  report_(lane, generation, pid, cause);
}

void Agent::kill(std::int32_t lane, std::uint64_t generation) {
  if (const auto found = running_.find(lane); found != running_.end() && found->second.generation == generation)
    found->second.child->signal(SIGKILL);
}

void Agent::kill_all() {
  running_.clear();
}

}  // namespace nestor::launch
