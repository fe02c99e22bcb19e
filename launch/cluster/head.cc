#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/actors/remote/version.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/head.h>
#include <nestor/launch/cluster/log.h>
#include <nestor/launch/cluster/placement_actor.h>
#include <nestor/launch/cluster/trainer.h>

namespace nestor::launch {

using actors::Error;
using actors::Future;
using actors::Promise;

HeadActor::HeadActor(Plan plan, actors::remote::Node* node, ModelBuilder build,
                     std::function<void(std::size_t, std::uint64_t)> start_agent, std::function<void()> leave)
    : plan_(std::move(plan)),
      node_(node),
      build_(std::move(build)),
      start_agent_(std::move(start_agent)),
      leave_(std::move(leave)),
      agents_(plan_.hosts.size()) {
  for (std::size_t host = 0; host < plan_.hosts.size(); ++host)
    for (std::int32_t lane : plan_.hosts[host].lanes) {
      lanes_.resize(std::max<std::size_t>(lanes_.size(), static_cast<std::size_t>(lane) + 1));
      lanes_[static_cast<std::size_t>(lane)].host = host;
    }
  for (std::size_t host = 0; host < agents_.size(); ++host) this->start_agent(host);
}

HeadActor::~HeadActor() = default;

void HeadActor::describe(actors::MethodTable<HeadActor>& table) {
  table.type("cluster")
      .method("actors", &HeadActor::actors)
      .method("nodes", &HeadActor::nodes)
      .method("pools", &HeadActor::pools)
      .method("status", &HeadActor::status)
      .method("whole", &HeadActor::whole)
      .method("train", &HeadActor::train)
      .method("output", &HeadActor::output)
      .method("stop_job", &HeadActor::stop_job)
      .method("grant", &HeadActor::grant)
      .method("run_on", &HeadActor::run_on)
      .method("pause", &HeadActor::pause)
      .method("ask", &HeadActor::ask)
      .method("look", &HeadActor::look)
      .method("history", &HeadActor::history)
      .method("down", &HeadActor::down)
      .method("worker_ended", &HeadActor::worker_ended);
}

// --- what clients see ---

Future<std::vector<ActorRow>> HeadActor::actors() const {
  std::vector<ActorRow> rows;
  rows.push_back({"cluster", "head", "ALIVE", plan_.hosts.front().host, ::getpid(), -1, 0, 0, ""});
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    const AgentState& agent = agents_[host];
    rows.push_back({agent_node(host), "agent", agent.state, plan_.hosts[host].host, agent.pid, -1, 0, agent.restarts,
                    agent.death_cause});
  }
  const auto lanes = workers();
  rows.insert(rows.end(), lanes.begin(), lanes.end());
  auto promise = std::make_shared<Promise<std::vector<ActorRow>>>();
  auto users = std::make_shared<Future<std::vector<ActorRow>>>(
      node_->attach<PlacementActor>("head", PlacementActor::kName).call(&PlacementActor::actors));
  users->on_ready([promise, users, rows = std::move(rows)]() mutable {
    try {
      const auto more = users->get();
      rows.insert(rows.end(), more.begin(), more.end());
      promise->set_value(std::move(rows));
    } catch (...) {
      promise->fail(std::current_exception());
    }
  });
  return promise->future();
}

std::vector<ActorRow> HeadActor::workers() const {
  std::vector<ActorRow> rows;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const LaneState& state = lanes_[lane];
    rows.push_back({lane_node(static_cast<std::int32_t>(lane)), "worker", state.state, plan_.hosts[state.host].host,
                    state.pid, static_cast<std::int32_t>(lane), state.generation, state.restarts, state.death_cause});
  }
  return rows;
}

std::vector<HostRow> HeadActor::nodes() const {
  std::vector<HostRow> rows;
  for (std::size_t host = 0; host < agents_.size(); ++host)
    rows.push_back(
        {agent_node(host), plan_.hosts[host].host, agents_[host].state, agents_[host].pid, plan_.hosts[host].lanes});
  return rows;
}

std::vector<PoolRow> HeadActor::pools() const {
  std::vector<PoolRow> rows;
  const JobControl* shown = shown_job();
  if (shown == nullptr) return rows;
  const JobRow job = shown->row();
  for (const auto& [name, lanes] : job.pools)
    rows.push_back({name, shown->ended() ? "LEFT" : "ALIVE", lanes, job.generation});
  return rows;
}

ClusterRow HeadActor::status() const {
  ClusterRow row;
  row.name = plan_.name;
  row.endpoint = node_->endpoint();
  row.version = actors::remote::version();
  row.pid = ::getpid();
  row.lanes = static_cast<std::int32_t>(lanes_.size());
  row.alive = static_cast<std::int32_t>(
      std::count_if(lanes_.begin(), lanes_.end(), [](const LaneState& lane) { return lane.state == "ALIVE"; }));
  row.refused = node_->counters().refused;
  if (const JobControl* shown = shown_job()) {
    row.job = shown->row();
  } else {
    row.job.state = "none";
  }
  row.faults = faults_;
  return row;
}

Future<void> HeadActor::whole() {
  auto promise = std::make_shared<Promise<void>>();
  auto future = promise->future();
  waiting_whole_.push_back(std::move(promise));
  tell_whole();
  return future;
}

Future<std::vector<ActorRow>> HeadActor::settled() {
  auto promise = std::make_shared<Promise<std::vector<ActorRow>>>();
  auto future = promise->future();
  waiting_settled_.push_back(std::move(promise));
  tell_whole();
  return future;
}

/// Those who wait for the workers.
void HeadActor::tell_whole() {
  if (std::all_of(lanes_.begin(), lanes_.end(),
                  [](const LaneState& lane) { return lane.state == "ALIVE" || lane.state == "DEAD"; }))
    for (auto& promise : std::exchange(waiting_settled_, {})) promise->set_value(workers());
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (lanes_[lane].state == "DEAD") {
      for (auto& promise : std::exchange(waiting_whole_, {}))
        promise->fail(std::make_exception_ptr(Error(lane_node(static_cast<std::int32_t>(lane)),
                                                    "does not come up: " + lanes_[lane].death_cause, "see its log")));
      return;
    }
  if (std::all_of(lanes_.begin(), lanes_.end(), [](const LaneState& lane) { return lane.state == "ALIVE"; }))
    for (auto& promise : std::exchange(waiting_whole_, {})) promise->set_value();
}

// --- the job ---

void HeadActor::train(TrainRequest request) {
  if (leaving_) throw Error(name(), "is going down");
  if (job_ && !job_->ended())
    throw Error(name(), "trains already: " + job_->row().dir,
                "wait for it, steer it with nestor driver, or stop it with Ctrl-C in its client");
  if (shown_job() == job_.get()) last_job_ = job_;
  job_ = std::make_shared<JobControl>(request.paused ? JobControl::Start::paused : JobControl::Start::free,
                                      [](const std::string& line) { log_line("job", line); });
  Trainer::Place place{node_, self(this), build_, static_cast<std::int32_t>(lanes_.size()), plan_.settings};
  const auto trainer =
      runtime().spawn<Trainer>("job" + std::to_string(++jobs_), std::move(place), job_, std::move(request));
  trainer.call(&Trainer::run);
}

Future<JobOutput> HeadActor::output(std::uint64_t next) {
  return job().output(next);
}

void HeadActor::stop_job() {
  living_job().stop(SIGINT);
}

JobControl& HeadActor::job() const {
  if (!job_) throw Error(name(), "trains nothing", "nestor driver CONFIG --cluster, or nestor train");
  return *job_;
}

const JobControl* HeadActor::shown_job() const {
  if (job_ && last_job_ && job_->ended() && !job_->began()) return last_job_.get();
  return job_.get();
}

JobControl& HeadActor::living_job() const {
  if (job().ended()) throw Error(name(), "trains nothing: its job has ended", "nestor train --resume goes on");
  return *job_;
}

Future<JobRow> HeadActor::grant(std::int64_t steps) {
  return living_job().grant(steps);
}

Future<JobRow> HeadActor::run_on() {
  return living_job().run_on();
}

Future<JobRow> HeadActor::pause() {
  return living_job().pause();
}

Future<JobAnswer> HeadActor::ask(JobRequest request) {
  return living_job().ask(std::move(request));
}

JobOutput HeadActor::look() const {
  return job().look();
}

std::vector<StepRow> HeadActor::history(std::int64_t after) const {
  const JobControl* shown = shown_job();
  return shown ? shown->history(after) : std::vector<StepRow>();
}

Future<std::vector<Fault>> HeadActor::faults_after(std::size_t known) {
  auto promise = std::make_shared<Promise<std::vector<Fault>>>();
  auto future = promise->future();
  if (faults_.size() > known) {
    promise->set_value(faults_.begin() + static_cast<std::ptrdiff_t>(known), faults_.end());
  } else {
    waiting_faults_.push_back({known, std::move(promise)});
  }
  return future;
}

void HeadActor::job_ended() {
  if (leaving_) end_everything();
}

void HeadActor::down() {
  if (std::exchange(leaving_, true)) return;
  if (job_ && !job_->ended()) {
    job_->stop(SIGTERM);
  } else {
    end_everything();
  }
}

void HeadActor::end_everything() {
  if (std::exchange(ending_, true)) return;
  for (AgentState& agent : agents_)
    if (agent.agent) agent.agent.call(&Agent::kill_all);
  leave_();
}

}  // namespace nestor::launch
