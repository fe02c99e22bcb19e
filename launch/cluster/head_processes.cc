#include <algorithm>
#include <chrono>
#include <utility>

#include <nestor/launch/cluster/head.h>

// The head's processes: who joins, who is lost, and what is started again.

namespace nestor::launch {

void HeadActor::joined(actors::remote::NodeInfo info) {
  if (info.kind == "agent") {
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      if (agent_node(host) != info.name) continue;
      AgentState& agent = agents_[host];
      agent.state = "ALIVE";
      agent.pid = info.pid;
      agent.agent = node_->attach<Agent>(info.name, "agent");
      for (std::int32_t lane : plan_.hosts[host].lanes) start_worker(lane);
    }
    return;
  }
  if (info.kind != "worker" || info.lane < 0 || info.lane >= static_cast<std::int32_t>(lanes_.size())) return;
  LaneState& lane = lanes_[static_cast<std::size_t>(info.lane)];
  if (info.generation != lane.generation) return node_->declare_lost(info, "it was replaced");
  lane.join(info.pid);
  tell_whole();
}

void HeadActor::start_agent(std::size_t host) {
  const std::uint64_t start = ++agents_[host].starts;
  try {
    start_agent_(host, start);
  } catch (const std::exception& error) {
    return agent_lost(host, error.what());
  }
  self(this).run_after(plan_.settings.start_limit, [host, start](HeadActor& head) {
    if (head.agents_[host].starts == start && head.agents_[host].state != "ALIVE")
      head.agent_lost(host, "it did not join in time");
  });
}

void HeadActor::start_worker(std::int32_t number) {
  LaneState& lane = lanes_[static_cast<std::size_t>(number)];
  AgentState& agent = agents_[lane.host];
  if (ending_ || agent.state != "ALIVE" || lane.state == "DEAD") return;
  watch(number).start(*this, plan_.settings.start_limit);
}

ProcessWatch<HeadActor> HeadActor::watch(std::int32_t lane) {
  const auto index = static_cast<std::size_t>(lane);
  return {self(this), lane, [index](HeadActor& head) -> WatchedProcess& { return head.lanes_[index]; },
          [index](HeadActor& head) { return head.agents_[head.lanes_[index].host].agent; },
          [lane](HeadActor& head, const std::string& cause) { head.lane_lost(lane, cause); }};
}

void HeadActor::disconnected(actors::remote::NodeInfo info, std::string cause) {
  if (info.kind == "worker") {
    if (!lanes_[static_cast<std::size_t>(info.lane)].lives(info.generation)) return node_->declare_lost(info, cause);
    return watch(info.lane).disconnected(*this, cause, plan_.settings.reap);
  }
  if (info.kind == "agent") {
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      if (agent_node(host) != info.name || agents_[host].pid != info.pid) continue;
      self(this).run_after(plan_.settings.reap / 2, [host, pid = info.pid, cause](HeadActor& head) {
        if (head.agents_[host].pid == pid && head.agents_[host].state == "ALIVE") head.agent_lost(host, cause);
      });
      return;
    }
  }
  node_->declare_lost(info, cause);
}

void HeadActor::worker_ended(std::int32_t number, std::uint64_t generation, std::int64_t pid, std::string cause) {
  if (number < 0 || number >= static_cast<std::int32_t>(lanes_.size())) return;
  LaneState& lane = lanes_[static_cast<std::size_t>(number)];
  if (lane.generation != generation || lane.state == "DEAD") return;
  if (pid != 0) lane.pid = pid;
  lane_lost(number, lane.end_in_words(cause));
}

void HeadActor::agent_ended(std::uint64_t host, std::uint64_t start, std::string cause) {
  if (ending_ || start != agents_[host].starts) return;
  agent_lost(host, cause);
}

void HeadActor::note_fault(const std::string& actor, std::size_t host, std::int64_t pid, const std::string& cause) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  faults_.push_back({job_ ? job_->row().step : 0, actor, plan_.hosts[host].host, cause, pid, ms});
}

void HeadActor::agent_lost(std::size_t host, const std::string& cause) {
  AgentState& agent = agents_[host];
  if (ending_) {
    agent.state = "LEFT";
    return;
  }
  const bool was_alive = agent.state == "ALIVE";
  agent.state = "RESTARTING";
  agent.death_cause = cause;
  node_->declare_lost(agent_node(host), cause);
  if (was_alive) note_fault(agent_node(host), host, agent.pid, cause);
  agent.agent = {};
  agent.pid = 0;
  for (std::int32_t lane : plan_.hosts[host].lanes)
    if (lanes_[static_cast<std::size_t>(lane)].state == "ALIVE") lane_lost(lane, "its host's agent is gone: " + cause);
  if (++agent.restarts > plan_.settings.max_restarts) {
    agent.state = "DEAD";
    for (std::int32_t lane : plan_.hosts[host].lanes) {
      lanes_[static_cast<std::size_t>(lane)].state = "DEAD";
      lanes_[static_cast<std::size_t>(lane)].death_cause = "its host's agent does not come up: " + cause;
    }
    return tell_whole();
  }
  const auto pause = was_alive ? plan_.settings.restart_pause : 5 * plan_.settings.restart_pause;
  self(this).run_after(pause, [host](HeadActor& head) {
    if (!head.ending_ && head.agents_[host].state == "RESTARTING") head.start_agent(host);
  });
}

void HeadActor::lane_lost(std::int32_t number, const std::string& cause) {
  LaneState& lane = lanes_[static_cast<std::size_t>(number)];
  if (ending_) {
    lane.state = "LEFT";
    return;
  }
  const bool was_alive = lane.state == "ALIVE";
  lane.state = "RESTARTING";
  lane.death_cause = cause;
  lane.silence.clear();
  if (was_alive) {
    note_fault(lane_node(number), lane.host, lane.pid, cause);
    if (job_) job_->show([&](JobRow& row) { row.cause = lane_node(number) + ": " + cause; });
  }
  node_->declare_lost(lane_node(number), cause);
  for (std::size_t other = 0; other < lanes_.size(); ++other)
    if (lanes_[other].state == "ALIVE")
      node_->attach<Worker>(lane_node(static_cast<std::int32_t>(other)), "worker")
          .call(&Worker::drop_peer, number, cause);
  for (auto& waiter : std::exchange(waiting_faults_, {})) {
    if (faults_.size() > waiter.known) {
      waiter.promise->set_value(faults_.begin() + static_cast<std::ptrdiff_t>(waiter.known), faults_.end());
    } else {
      waiting_faults_.push_back(std::move(waiter));
    }
  }
  if (++lane.restarts > plan_.settings.max_restarts) {
    lane.state = "DEAD";
    return tell_whole();
  }
  // A worker that dies before it has joined waits longer and longer.
  const auto pause = was_alive ? plan_.settings.restart_pause
                               : plan_.settings.restart_pause * (1 << std::min(lane.restarts, std::int32_t{6}));
  self(this).run_after(pause, [number, generation = lane.generation](HeadActor& head) {
    LaneState& lane = head.lanes_[static_cast<std::size_t>(number)];
    if (lane.generation == generation && lane.state == "RESTARTING") head.start_worker(number);
  });
}

}  // namespace nestor::launch
