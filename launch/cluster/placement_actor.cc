#include <algorithm>
#include <utility>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/head.h>
#include <nestor/launch/cluster/placement_actor.h>

namespace nestor::launch {

using actors::Error;
using actors::Future;
using actors::Promise;

PlacementActor::PlacementActor(std::vector<Placement::Host> hosts, actors::remote::Node* node, ClusterSettings settings)
    : placement_(std::move(hosts)),
      node_(node),
      settings_(std::move(settings)),
      processes_(placement_.hosts().size()) {}

void PlacementActor::describe(actors::MethodTable<PlacementActor>& table) {
  table.type("placement")
      .method("spawn", &PlacementActor::spawn)
      .method("find", &PlacementActor::find)
      .method("kill", &PlacementActor::kill)
      .method("actors", &PlacementActor::actors)
      .method("process_ended", &PlacementActor::process_ended)
      .method("actor_ended", &PlacementActor::actor_ended);
}

// --- clients and actors ---

Future<ActorAddress> PlacementActor::spawn(SpawnOrder order) {
  const ActorSpec& spec = order.spec;
  if (spec.name.empty() || spec.name.starts_with("nestor.") || spec.name == "node")
    throw Error("'" + spec.name + "'", "is no name for an actor of yours", "choose another");
  if (records_.contains(spec.name))
    throw Error(spec.name, "an actor of this name lives already", "names are unique; find it, or choose another");
  if (spec.max_restarts < 0 || spec.max_concurrency < 1)
    throw Error(spec.name, "needs max_restarts of at least 0 and max_concurrency of at least 1");
  const auto nodes = node_->nodes();
  if (!spec.detached && order.owner != "head" &&
      std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.name == order.owner; }))
    throw Error(spec.name, "its owner " + order.owner + " has left");
  Record record;
  record.host = placement_.take(spec.name, spec.resources, spec.placement, spec.host);
  record.order = std::move(order);
  auto promise = std::make_shared<Promise<ActorAddress>>();
  auto future = promise->future();
  record.waiting.push_back(std::move(promise));
  const std::string name = record.order.spec.name;
  const std::size_t host = record.host;
  records_.emplace(name, std::move(record));
  need(host);
  return future;
}

Future<ActorAddress> PlacementActor::find(std::string name) {
  auto promise = std::make_shared<Promise<ActorAddress>>();
  auto future = promise->future();
  const auto found = records_.find(name);
  if (found == records_.end()) {
    for (auto row = dead_.rbegin(); row != dead_.rend(); ++row)
      if (row->name == name) throw actors::ActorDied(name, row->death_cause);
    std::string names;
    for (const auto& [other, record] : records_) names += (names.empty() ? "" : ", ") + other;
    throw Error(name, "no such actor on this cluster", names.empty() ? "no actor lives" : "there are: " + names);
  }
  if (found->second.state == State::alive) {
    promise->set_value(ActorAddress{node_of(found->second.host), found->second.order.type});
  } else {
    found->second.waiting.push_back(std::move(promise));
  }
  return future;
}

void PlacementActor::kill(std::string name, std::string cause) {
  const auto found = records_.find(name);
  if (found == records_.end()) throw Error(name, "no such actor lives on this cluster");
  bury(found, cause);
}

std::vector<ActorRow> PlacementActor::actors() const {
  std::vector<ActorRow> rows;
  for (std::size_t host = 0; host < processes_.size(); ++host) {
    const Process& process = processes_[host];
    if (process.generation > 0)
      rows.push_back({node_of(host), "actors", process.state, placement_.hosts()[host].host, process.pid, -1,
                      process.generation, process.restarts, process.death_cause});
  }
  for (const auto& [name, record] : records_) rows.push_back(row_of(record));
  rows.insert(rows.end(), dead_.begin(), dead_.end());
  return rows;
}

ActorRow PlacementActor::row_of(const Record& record) const {
  const char* state = record.state == State::alive     ? "ALIVE"
                      : record.state == State::pending ? "PENDING"
                                                       : "RESTARTING";
  return {record.order.spec.name,
          record.order.type,
          state,
          placement_.hosts()[record.host].host,
          processes_[record.host].pid,
          -1,
          static_cast<std::uint64_t>(record.restarts) + 1,
          record.restarts,
          record.death_cause};
}

// --- the life of an actor ---

void PlacementActor::make(Record& record) {
  record.order.number = ++numbers_;
  const std::string name = record.order.spec.name;
  auto made = std::make_shared<Future<void>>(processes_[record.host].host.call(&ActorHost::spawn, record.order));
  made->on_ready([made, name, number = record.order.number, me = self(this)] {
    std::string failure;
    try {
      made->get();
    } catch (const actors::ActorDied&) {
      return;  // the process went: that is reported by itself
    } catch (const std::exception& error) {
      failure = error.what();
    }
    me.run([name, number, failure](PlacementActor& placement) { placement.made(name, number, failure); });
  });
}

PlacementActor::Record* PlacementActor::find_record(const std::string& name, std::uint64_t number) {
  const auto found = records_.find(name);
  return found == records_.end() || found->second.order.number != number ? nullptr : &found->second;
}

void PlacementActor::made(const std::string& name, std::uint64_t number, const std::string& failure) {
  Record* record = find_record(name, number);
  if (record == nullptr || record->state == State::alive) return;
  if (!failure.empty()) return bury(records_.find(name), failure);
  record->state = State::alive;
  for (auto& promise : std::exchange(record->waiting, {}))
    promise->set_value(ActorAddress{node_of(record->host), record->order.type});
}

void PlacementActor::actor_ended(std::string name, std::uint64_t number, std::string cause) {
  if (find_record(name, number) != nullptr) bury(records_.find(name), cause);
}

void PlacementActor::bury(Records::iterator found, const std::string& cause) {
  Record record = std::move(found->second);
  records_.erase(found);
  const std::string& name = record.order.spec.name;
  placement_.give_back(record.host, record.order.spec.resources);
  ActorRow row = row_of(record);
  row.state = "DEAD";
  row.death_cause = cause;
  std::erase_if(dead_, [&](const ActorRow& other) { return other.name == name; });
  dead_.push_back(std::move(row));
  if (dead_.size() > kObituaries) dead_.erase(dead_.begin());
  // Its constructor's own words are passed on as they are.
  for (auto& promise : record.waiting) {
    const std::string prefix = name + ": ";
    promise->fail(std::make_exception_ptr(
        actors::ActorDied(name, cause.starts_with(prefix) ? cause.substr(prefix.size()) : cause)));
  }
  const Process& process = processes_[record.host];
  if (process.state == "ALIVE" && record.order.number != 0) node_->end(node_of(record.host), name, cause);
}

// --- processes ---

void PlacementActor::need(std::size_t host) {
  Process& process = processes_[host];
  if (process.state == "ALIVE") {
    for (auto& [name, record] : records_)
      if (record.host == host && record.state != State::alive && record.order.number == 0) make(record);
    return;
  }
  if (process.state == "PENDING" || process.state == "RESTARTING") return;
  process.state = "PENDING";
  process.failures = 0;
  if (process.agent) start(host);
}

void PlacementActor::start(std::size_t host) {
  watch(host).start(*this, settings_.start_limit);
}

ProcessWatch<PlacementActor> PlacementActor::watch(std::size_t host) {
  return {self(this), kLane, [host](PlacementActor& me) -> WatchedProcess& { return me.processes_[host]; },
          [host](PlacementActor& me) { return me.processes_[host].agent; },
          [host](PlacementActor& me, const std::string& cause) { me.lose(host, cause); }};
}

void PlacementActor::joined(actors::remote::NodeInfo info) {
  for (std::size_t host = 0; host < processes_.size(); ++host) {
    Process& process = processes_[host];
    if (info.kind == "agent" && info.name == HeadActor::agent_node(host)) {
      process.agent = node_->attach<Agent>(info.name, "agent");
      placement_.offer(host, "cpus", info.cpus);
      if (process.state == "PENDING") start(host);
    } else if (info.kind == "actors" && info.name == node_of(host)) {
      if (info.generation != process.generation) return node_->declare_lost(info, "it was replaced");
      process.join(info.pid);
      process.failures = 0;
      process.host = node_->attach<ActorHost>(info.name, ActorHost::kName);
      for (auto& [name, record] : records_)
        if (record.host == host) record.order.number = 0;
      need(host);
    }
  }
}

void PlacementActor::disconnected(actors::remote::NodeInfo info, std::string cause) {
  std::vector<std::string> orphans;
  for (std::size_t host = 0; host < processes_.size(); ++host) {
    Process& process = processes_[host];
    if (info.kind == "agent" && info.name == HeadActor::agent_node(host)) {
      process.agent = {};
    }
    if (info.kind != "actors" || info.name != node_of(host)) continue;
    if (!process.lives(info.generation)) return node_->declare_lost(info, cause);
    watch(host).disconnected(*this, cause, settings_.reap);
  }
  if (info.kind != "client") return;
  for (const auto& [name, record] : records_)
    if (!record.order.spec.detached && record.order.owner == info.name) orphans.push_back(name);
  for (const std::string& name : orphans) bury(records_.find(name), "its driver " + info.name + " is gone: " + cause);
}

void PlacementActor::process_ended(std::uint64_t host, std::uint64_t generation, std::int64_t pid, std::string cause) {
  if (host >= processes_.size() || processes_[host].generation != generation) return;
  Process& process = processes_[host];
  if (process.state != "ALIVE" && process.state != "PENDING") return;
  if (pid != 0) process.pid = pid;
  lose(host, process.end_in_words(cause));
}

void PlacementActor::lose(std::size_t host, const std::string& cause) {
  Process& process = processes_[host];
  const bool was_alive = process.state == "ALIVE";
  process.host = {};
  process.death_cause = cause;
  process.silence.clear();
  process.state = "RESTARTING";
  ++process.restarts;
  if (!was_alive) ++process.failures;
  node_->declare_lost(node_of(host), cause);
  const bool give_up = process.failures >= kMostFailures || process.restarts > settings_.max_restarts;
  const std::string why = "its process ended: " + cause;
  std::vector<std::string> lost;
  bool some_stay = false;
  for (auto& [name, record] : records_) {
    const bool orphan = !record.order.spec.detached && record.order.owner == node_of(host);
    if (record.host != host) {
      if (orphan) lost.push_back(name);
      continue;
    }
    // One that was not made yet has not died.
    const bool died = record.state == State::alive || (record.state == State::pending && record.order.number != 0);
    if (give_up || orphan || (died && record.restarts >= record.order.spec.max_restarts)) {
      lost.push_back(name);
      continue;
    }
    some_stay = true;
    record.order.number = 0;
    if (!died) continue;
    ++record.restarts;
    record.state = State::restarting;
    record.death_cause = why;
  }
  for (const std::string& name : lost) bury(records_.find(name), why);
  if (!some_stay) {
    process.state = give_up ? "DEAD" : "LEFT";  // until there is need of it again
    return;
  }
  const auto pause = settings_.restart_pause * (1 << std::min(process.failures, 6));
  self(this).run_after(pause, [host, generation = process.generation](PlacementActor& placement) {
    Process& process = placement.processes_[host];
    if (process.generation != generation || process.state != "RESTARTING") return;
    process.state = "PENDING";
    if (process.agent) placement.start(host);
  });
}

}  // namespace nestor::launch
