#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/actors/remote/version.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/child_process.h>
#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/cluster/fork_server.h>
#include <nestor/launch/cluster/head.h>
#include <nestor/launch/cluster/host_files.h>
#include <nestor/launch/cluster/introduction.h>
#include <nestor/launch/cluster/log.h>
#include <nestor/launch/cluster/placement_actor.h>
#include <nestor/launch/cluster/processes.h>
#include <nestor/launch/cluster/starters.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/interrupts.h>

namespace nestor::launch {
namespace {

using actors::Handle;
using actors::remote::Node;
using actors::remote::NodeEvents;
using actors::remote::NodeInfo;

/// What ends a process: a code, given once. Any thread.
class Leave {
 public:
  void operator()(int code) {
    std::lock_guard lock(mutex_);
    if (!std::exchange(given_, true)) promise_.set_value(code);
  }
  int wait() { return promise_.get_future().get(); }

 private:
  std::mutex mutex_;
  bool given_ = false;
  std::promise<int> promise_;
};

template <class... T>
void log(const std::string& who, fmt::format_string<T...> text, T&&... values) {
  log_line(who, fmt::format(text, std::forward<T>(values)...));
}

/// Who may connect: public keys and their owners.
std::map<std::string, std::string> allowed(const Credentials& credentials) {
  std::map<std::string, std::string> owners{{credentials.client.public_key, "client"}};
  for (std::size_t i = 0; i < credentials.hosts.size(); ++i)
    owners[credentials.hosts[i].public_key] = "host" + std::to_string(i);
  return owners;
}

/// That this process may run on.
std::int32_t cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// What a host offers to users' actors.
Resources offers_of(const ClusterFile::Host& host) {
  Resources offers(host.resources.begin(), host.resources.end());
  offers.try_emplace("lanes", host.lanes);
  return offers;
}

/// A program started anew.
class ExecutedChild final : public Agent::Child {
 public:
  ExecutedChild(ChildProcess::Options options, std::function<void(const std::string&)> ended)
      : process_(std::move(options), std::move(ended)) {}
  std::int64_t pid() const override { return process_.pid(); }
  void signal(int number) override { process_.signal(number); }

 private:
  ChildProcess process_;
};

/// The agents' processes. Used by the head's actor, and at the end.
class Agents {
 public:
  Agents(const ClusterFile& file, const ClusterFolder& folder, const Credentials& credentials,
         const ClusterSettings& settings, ForkServer& forks)
      : file_(file),
        folder_(folder),
        credentials_(credentials),
        settings_(settings),
        forks_(forks),
        children_(file.hosts.size()) {
    for (const auto& host : file.hosts) {
      lanes_.emplace_back();
      for (std::int32_t i = 0; i < host.lanes; ++i) lanes_.back().push_back(next_lane_++);
    }
  }
  const std::vector<std::vector<std::int32_t>>& lanes() const { return lanes_; }

  void start(std::size_t host, const std::string& endpoint, std::function<void(std::string)> ended) {
    if (children_[host]) children_[host]->signal(SIGKILL);  // one that hangs
    children_[host].reset();
    const ClusterFile::Host& plan = file_.hosts[host];
    const auto variables = settings_.environment();
    Introduction introduction;
    introduction.cluster = file_.name;
    introduction.host = plan.host;
    introduction.host_number = static_cast<std::int64_t>(host);
    introduction.endpoint = endpoint;
    introduction.head_key = credentials_.head.public_key;
    introduction.keys = credentials_.hosts[host];
    introduction.secret = credentials_.secret;
    introduction.own_lanes = lanes_[host];
    introduction.lanes = next_lane_;
    const bool local = file_.launch == ClusterFile::Launch::local;
    if (local) introduction.logs = (folder_.path() / "logs").string();
    introduction.listen = fmt::format("tcp://{}:0", local ? "127.0.0.1" : plan.host);
    introduction.peers = allowed(credentials_);
    ChildProcess::Options options;
    options.arguments = agent_command(file_.launch, plan, program_file(), variables);
    options.environment = agent_environment(file_.launch, plan, variables);
    options.input = introduction.write();
    options.log = folder_.log(HeadActor::agent_node(host));
    // A host's own variables may be such as libraries read while they are loaded.
    if (local && plan.env.empty())
      children_[host] = forks_.start({"agent", options.input, options.log, options.environment}, ended);
    if (children_[host]) return;
    children_[host] = std::make_unique<ExecutedChild>(
        std::move(options), [this, host, ended = std::move(ended)](const std::string& cause) {
          ended(agent_end(file_.launch, file_.hosts[host], program_file(), cause));
        });
  }
  void end_all() { children_.clear(); }

 private:
  const ClusterFile& file_;
  const ClusterFolder& folder_;
  const Credentials& credentials_;
  const ClusterSettings& settings_;
  ForkServer& forks_;
  std::vector<std::unique_ptr<Agent::Child>> children_;
  std::vector<std::vector<std::int32_t>> lanes_;
  std::int32_t next_lane_ = 0;
};

/// Which keys may be whom.
std::string admit(const NodeInfo& info, const std::string& key, const std::vector<std::vector<std::int32_t>>& lanes) {
  if (info.kind == "client") return key == "client" ? "" : "clients have a key of their own";
  for (std::size_t host = 0; host < lanes.size(); ++host) {
    if (key != "host" + std::to_string(host)) continue;
    if (info.kind == "agent" && info.name == HeadActor::agent_node(host)) return "";
    if (info.kind == "actors" && info.name == PlacementActor::node_of(host)) return "";
    if (info.kind == "worker" && info.name == HeadActor::lane_node(info.lane) &&
        std::find(lanes[host].begin(), lanes[host].end(), info.lane) != lanes[host].end())
      return "";
  }
  return info.name + " does not belong to the key \"" + key + "\"";
}

/// An actor of the head, for events that may come before it is there.
template <class T>
class Slot {
 public:
  void set(const Handle<T>& head) {
    std::lock_guard lock(mutex_);
    head_ = head;
  }
  template <class Method, class... Args>
  void call(Method method, Args&&... args) {
    std::lock_guard lock(mutex_);
    if (head_) head_.call(method, std::forward<Args>(args)...);
  }

 private:
  std::mutex mutex_;
  Handle<T> head_;
};

/// A member of the cluster is nothing without its head.
NodeEvents leaving_with_head(const std::string& me, Leave& leave) {
  NodeEvents events;
  events.head_link = [&](const std::string& cause) {
    if (cause.empty()) return;
    log(me, "lost the head: {}", cause);
    leave(cause == "left" ? 0 : 1);
  };
  events.notice = [me](const std::string& text) { log(me, "{}", text); };
  return events;
}

/// Ends the actors, and with them the process where they do not: what they compute is worth nothing any more.
int end_soon(actors::Runtime& runtime, const std::string& me, int code) {
  try {
    runtime.shutdown(std::chrono::seconds(2));
  } catch (const actors::Error& error) {
    log(me, "{}", error.what());
    std::_Exit(code == 0 ? 1 : code);
  }
  return code;
}

}  // namespace

std::string program_file() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

int run_head(const std::string& cluster, const ModelBuilder& build, const ActorTypes& types) {
  static_cast<void>(actors::remote::program_digest());  // once for all that are forked
  ForkServer forks([&](const std::string&, const std::string& input) { return run_agent(input, build, types); });
  const ClusterFolder folder(cluster);
  const ClusterFolder::Lock lock(folder.lock_file());
  if (!lock.held()) throw WorkError("cluster " + cluster, "has a head already");
  lock.sign();
  const ClusterFile file = read_cluster_file(read_text(folder.cluster_file()), "cluster.yaml");
  const Credentials credentials = folder.read_credentials();
  ClusterSettings settings = ClusterSettings::from_environment();
  if (settings.transports.empty()) settings.transports = file.transports();

  Interrupts interrupts;
  Leave leave;
  Slot<HeadActor> slot;
  Slot<PlacementActor> placement_slot;
  Agents agents(file, folder, credentials, settings, forks);
  actors::Runtime runtime;
  NodeInfo self;
  self.kind = "head";
  self.host = file.head_host;
  self.pid = ::getpid();
  const Node::Head head{fmt::format("tcp://{}:{}", file.head_host, file.head_port), credentials.head,
                        allowed(credentials)};
  NodeEvents events;
  events.admit = [&agents](const NodeInfo& info, const std::string& key) { return admit(info, key, agents.lanes()); };
  events.joined = [&](const NodeInfo& info) {
    slot.call(&HeadActor::joined, info);
    placement_slot.call(&PlacementActor::joined, info);
  };
  events.disconnected = [&](const NodeInfo& info, const std::string& cause) {
    if (info.kind != "actors") slot.call(&HeadActor::disconnected, info, cause);
    placement_slot.call(&PlacementActor::disconnected, info, cause);
  };
  std::optional<Node> node;
  try {
    node.emplace(runtime, self, head, events, settings.link());
  } catch (const std::runtime_error& error) {
    throw InputError("cluster.yaml:head", error.what(), "an address of this machine, and a port that is free");
  }

  std::vector<Placement::Host> offers;
  for (const auto& host : file.hosts) offers.push_back({host.host, offers_of(host)});
  placement_slot.set(runtime.spawn<PlacementActor>(PlacementActor::kName, std::move(offers), &*node, settings));

  HeadActor::Plan plan{file.name, {}, settings};
  for (std::size_t host = 0; host < file.hosts.size(); ++host)
    plan.hosts.push_back({file.hosts[host].host, agents.lanes()[host]});
  const auto start_agent = [&](std::size_t host, std::uint64_t start) {
    agents.start(host, node->endpoint(), [&slot, host, start](std::string cause) {
      slot.call(&HeadActor::agent_ended, static_cast<std::uint64_t>(host), start, std::move(cause));
    });
  };
  const auto actor = runtime.spawn<HeadActor>("cluster", plan, &*node, build, start_agent, [&leave] { leave(0); });
  slot.set(actor);
  folder.write(ClusterState{node->endpoint(), actors::remote::version(), ::getpid(), start_time_of(::getpid())});
  log("head", "listens at {}, {} lanes on {} hosts", node->endpoint(), file.lanes(), file.hosts.size());
  interrupts.on_first([&] { slot.call(&HeadActor::down); });
  interrupts.on_second([&leave] { leave(1); });
  if (interrupts.requested()) slot.call(&HeadActor::down);
  const int code = leave.wait();
  interrupts.on_first({});
  interrupts.on_second({});
  slot.set({});
  placement_slot.set({});
  runtime.shutdown(std::chrono::seconds(30));
  agents.end_all();
  node.reset();
  folder.forget();
  log("head", "down");
  return code;
}

int run_agent(const std::string& text, const ModelBuilder& build, const ActorTypes& types) {
  static_cast<void>(actors::remote::program_digest());
  ForkServer forks([&](const std::string& what, const std::string& input) {
    return what == "actors" ? run_actors(input, types) : run_worker(input, build);
  });
  const Introduction introduction = Introduction::read(text);
  const ClusterSettings settings = ClusterSettings::from_environment();
  const auto host = static_cast<std::uint64_t>(introduction.host_number);
  const std::string me = HeadActor::agent_node(host);
  Interrupts interrupts;
  Leave leave;
  interrupts.on_first([&leave] { leave(0); });
  actors::Runtime runtime;
  NodeInfo self{me, "agent", introduction.host, ::getpid(), -1, 0, "", "", cores()};
  std::optional<Node> node;
  const auto start = [&](std::int32_t lane, std::uint64_t generation,
                         std::function<void(std::string)> ended) -> std::unique_ptr<Agent::Child> {
    Introduction worker = introduction;
    worker.lane = lane;
    worker.generation = generation;
    ChildProcess::Options options;
    const bool actors = lane == PlacementActor::kLane;
    options.arguments = {program_file(), "node", actors ? "actors" : "worker"};
    options.input = worker.write();
    const std::string name = actors ? PlacementActor::node_of(host) : HeadActor::lane_node(lane);
    if (!introduction.logs.empty()) options.log = std::filesystem::path(introduction.logs) / (name + ".log");
    if (auto child = forks.start({options.arguments.back(), options.input, options.log, {}}, ended)) return child;
    return std::make_unique<ExecutedChild>(std::move(options), std::move(ended));
  };
  const auto report = [&](std::int32_t lane, std::uint64_t generation, std::int64_t pid, std::string cause) {
    if (lane == PlacementActor::kLane) {
      log(me, "{} (pid {}) ended: {}", PlacementActor::node_of(host), pid, cause);
      node->attach<PlacementActor>("head", PlacementActor::kName)
          .call(&PlacementActor::process_ended, host, generation, pid, std::move(cause));
      return;
    }
    log(me, "lane {} (pid {}) ended: {}", lane, pid, cause);
    node->attach<HeadActor>("head", "cluster").call(&HeadActor::worker_ended, lane, generation, pid, std::move(cause));
  };
  const auto agent = runtime.spawn<Agent>("agent", start, report);
  node.emplace(runtime, self, introduction.member(), leaving_with_head(me, leave), settings.link());
  node->wait_joined(settings.head_limit);
  log(me, "joined {}", introduction.endpoint);
  const int code = leave.wait();
  agent.call(&Agent::kill_all).wait_for(std::chrono::seconds(10));
  runtime.shutdown(std::chrono::seconds(10));
  node.reset();
  return code;
}

int run_worker(const std::string& text, const ModelBuilder& build) {
  const Introduction introduction = Introduction::read(text);
  const ClusterSettings settings = ClusterSettings::from_environment();
  const std::string me = HeadActor::lane_node(introduction.lane);
  Interrupts interrupts;
  Leave leave;
  interrupts.on_first([&leave] { leave(0); });
  actors::Runtime runtime;
  NodeInfo self{me, "worker", introduction.host, ::getpid(), introduction.lane, introduction.generation};
  runtime.spawn<HostFiles>("files");
  runtime.spawn<Worker>("worker", introduction.lane, settings.ucx(introduction.secret), build);
  Node::Member member = introduction.member();
  member.transport = settings.ucx(0);
  Node node(runtime, self, member, leaving_with_head(me, leave), settings.link());
  node.wait_joined(settings.head_limit);
  log(me, "joined {}, pid {}, start {}", introduction.endpoint, ::getpid(), introduction.generation);
  const int code = leave.wait();
  return end_soon(runtime, me, code);
}

int run_actors(const std::string& text, const ActorTypes& types) {
  const Introduction introduction = Introduction::read(text);
  const ClusterSettings settings = ClusterSettings::from_environment();
  const std::string me = PlacementActor::node_of(static_cast<std::size_t>(introduction.host_number));
  Interrupts interrupts;
  Leave leave;
  std::atomic<bool> leaving{false};
  interrupts.on_first([&leave] { leave(0); });
  actors::Runtime runtime;
  const NodeInfo self{me, "actors", introduction.host, ::getpid(), -1, introduction.generation};
  const auto report = [&](std::string name, std::uint64_t number, std::string cause) {
    Node* node = runtime.node();
    if (leaving || node == nullptr) return;  // then the process's end is theirs
    log(me, "{} ended: {}", name, cause);
    node->attach<PlacementActor>("head", PlacementActor::kName)
        .call(&PlacementActor::actor_ended, std::move(name), number, std::move(cause));
  };
  actors::ActorOptions options;
  options.name = ActorHost::kName;
  options.max_concurrency = ActorHost::kConstructors;
  runtime.spawn<ActorHost>(options, types, report);
  Node::Member member = introduction.member();
  member.listen = introduction.listen;
  member.allowed = introduction.peers;
  member.transport = settings.ucx(0);
  std::optional<Node> node;
  node.emplace(runtime, self, member, leaving_with_head(me, leave), settings.link());
  node->wait_joined(settings.head_limit);
  log(me, "joined {}, pid {}, start {}", introduction.endpoint, ::getpid(), introduction.generation);
  const int code = leave.wait();
  leaving = true;
  return end_soon(runtime, me, code);
}

}  // namespace nestor::launch
