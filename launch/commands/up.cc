#include <condition_variable>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/child_process.h>
#include <nestor/launch/cluster/client.h>
#include <nestor/launch/cluster/cluster_file.h>
#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/cluster/processes.h>
#include <nestor/launch/cluster/starters.h>
#include <nestor/launch/commands/command.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/interrupts.h>

// up, down, and `node`, which they start.

namespace nestor::launch {
namespace {

using namespace std::chrono_literals;

struct UpOptions {
  std::string file, name;
  bool foreground = false, slurm = false;
  std::map<std::string, std::string> settings;  ///< by variable; empty: not given
};

std::string last_lines(const std::filesystem::path& log) {
  std::string text;
  try {
    text = read_text(log);
  } catch (const InputError&) {
    return "no log";
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto start = text.rfind('\n');
  return one_line(start == std::string::npos ? text : text.substr(start + 1));
}

/// The head's process while `up` waits for it.
class HeadProcess {
 public:
  HeadProcess(const ClusterFolder& folder, bool foreground, const std::map<std::string, std::string>& settings)
      : folder_(folder) {
    ChildProcess::Options options;
    options.arguments = {program_file(), "node", "head", folder.name()};
    options.log = folder.log("head");
    for (const auto& [variable, value] : settings) options.environment.push_back(variable + "=" + value);
    options.dies_with_parent = foreground;
    options.end_limit = 60s;
    process_ = std::make_unique<ChildProcess>(std::move(options), [this](const std::string& cause) {
      std::lock_guard lock(mutex_);
      cause_ = cause;
      ended_.notify_all();
    });
  }
  /// Until the head can be joined; throws where it ends before.
  void wait_listening() {
    std::unique_lock lock(mutex_);
    while (!folder_.living()) {
      ended_.wait_for(lock, 20ms);
      if (cause_.empty()) continue;
      throw WorkError("head", "ended at its start: " + cause_ + ": " + last_lines(folder_.log("head")),
                      "see " + folder_.log("head").string());
    }
  }
  void detach() { process_->detach(); }
  int wait() { return process_->wait(); }
  void signal(int number) { process_->signal(number); }

 private:
  const ClusterFolder& folder_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string cause_;
  std::unique_ptr<ChildProcess> process_;
};

/// Hosts that are not where their processes would be.
void check_hosts(const ClusterFile& file, const std::string& source) {
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    const std::string& host = file.hosts[i].host;
    if (file.launch == ClusterFile::Launch::slurm || is_this_machine(host)) continue;
    if (file.launch == ClusterFile::Launch::local)
      throw InputError(fmt::format("{}:hosts[{}].host", source, i), host + " is not this machine",
                       "launch: local starts all processes here; launch: ssh or slurm starts them there");
    if (file.head_host == "localhost" || file.head_host.starts_with("127."))
      throw InputError(source + ":head.host", file.head_host + " is an address that " + host + " cannot reach",
                       "one of this machine's on their network");
  }
}

/// What keeps a starting cluster from being whole, each trouble once.
class Troubles {
 public:
  void show(const std::vector<ActorRow>& actors) {
    for (const ActorRow& row : actors)
      if (row.state == "RESTARTING" && seen_.insert(row.name + row.death_cause).second)
        fmt::print(stderr, "{} on {}: {}; trying again\n", row.name, row.host, row.death_cause);
  }

 private:
  std::set<std::string> seen_;
};

int up(UpOptions options) {
  const pid_t parent = ::getppid();
  std::erase_if(options.settings, [](const auto& setting) { return setting.second.empty(); });
  const std::string text = read_text(options.file, 1 << 20);
  ClusterFile file = read_cluster_file(text, options.file);
  if (!options.name.empty()) file.name = options.name;
  static_cast<void>(ClusterSettings::from_environment(options.settings));  // a bad one is said here, not in a log
  if (options.slurm) {
    std::cout << slurm_script(file, program_file(), std::filesystem::absolute(options.file).string(), options.settings);
    return 0;
  }
  const std::string starter = agent_command(file.launch, file.hosts.front(), program_file(), {}).front();
  if (find_program(starter).empty())
    throw InputError(options.file + ":launch", "no folder of PATH has " + starter, "it starts the hosts' agents");
  check_hosts(file, options.file);
  const ClusterFolder folder(file.name);
  folder.make();
  const ClusterFolder::Lock starting(folder.path() / "up.lock");
  if (!starting.held()) throw WorkError("cluster " + file.name, "is being started by another nestor up", "wait for it");
  std::string kept = text;
  if (!options.name.empty()) {
    YAML::Node node = YAML::Load(text);
    node["name"] = options.name;
    kept = YAML::Dump(node) + "\n";
  }
  bool runs = false;
  try {
    runs = folder.living().has_value();
  } catch (const InputError&) {
    // Damaged: of one that has ended, or see below.
  }
  if (!runs && folder.head_pid() != 0)
    throw WorkError("cluster " + file.name,
                    fmt::format("its head lives (pid {}), its files are gone or damaged", folder.head_pid()),
                    "nestor down " + file.name + " ends it");
  if (runs) {
    if (read_text(folder.cluster_file()) != kept)
      throw InputError(options.file, "cluster " + file.name + " runs already, from another file",
                       "nestor down " + file.name + " first, or --name another");
    fmt::print(stderr, "{} runs already (nestor status --cluster {})\n", file.name, file.name);
    return 0;
  }
  folder.forget();
  folder.make();
  folder.write(make_credentials(file.hosts.size()));
  folder.write_cluster_file(kept);

  Interrupts interrupts;
  if (options.foreground) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a lost parent takes the cluster down
    if (::getppid() != parent) ::raise(SIGTERM);
  }
  HeadProcess head(folder, options.foreground, options.settings);
  head.wait_listening();
  try {
    ClusterClient client(file.name);
    auto whole = client.head().call(&HeadActor::whole);
    Troubles troubles;
    while (!whole.wait_for(300ms) && !interrupts.requested())
      troubles.show(client.head().call(&HeadActor::actors).get());
    if (!interrupts.requested()) {
      whole.get();
      fmt::print(stderr, "{}: {} {} ALIVE\n", file.name, file.lanes(), file.lanes() == 1 ? "lane" : "lanes");
    }
  } catch (const actors::Error& error) {
    head.signal(SIGTERM);
    head.wait();
    throw WorkError("cluster " + file.name, error.what(), "logs are in " + (folder.path() / "logs").string());
  }
  if (interrupts.requested()) {
    head.signal(SIGTERM);
    head.wait();
    return 128 + interrupts.requested();
  }
  if (!options.foreground) {
    head.detach();
    return 0;
  }
  interrupts.on_first([&head] { head.signal(SIGTERM); });
  interrupts.on_second([&head] { head.signal(SIGTERM); });
  const int code = head.wait();
  return interrupts.requested() ? 128 + interrupts.requested() : code;
}

int down(const std::string& name) {
  std::string chosen = name;
  if (chosen.empty()) {
    const auto running = ClusterFolder::running();
    if (running.empty()) {
      fmt::print(stderr, "no cluster runs\n");
      return 0;
    }
    chosen = ClusterFolder::find_running("").name();
  }
  const ClusterFolder folder(chosen);
  std::int64_t pid = 0;
  try {
    if (const auto state = folder.living()) pid = state->pid;
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  if (pid == 0) pid = folder.head_pid();
  if (pid == 0) {
    fmt::print(stderr, "{} does not run\n", chosen);
    folder.forget();
    return 0;
  }
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
  const auto ended = [&](int milliseconds) {
    pollfd waiting{process, POLLIN, 0};
    return process < 0 || ::poll(&waiting, 1, milliseconds) > 0;
  };
  try {
    ClusterClient client(chosen);
    client.head().call(&HeadActor::down).wait_for(10s);
  } catch (const InputError& error) {
    fmt::print(stderr, "{}; the head is told by a signal\n", error.what());
    ::kill(static_cast<pid_t>(pid), SIGTERM);
  } catch (const WorkError& error) {
    fmt::print(stderr, "{}; the head is told by a signal\n", error.what());
    ::kill(static_cast<pid_t>(pid), SIGTERM);
  } catch (const actors::Error&) {
    // It went while it answered.
  }
  if (!ended(60'000)) {
    fmt::print(stderr, "{}: the head does not end by itself and is killed\n", chosen);
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    ended(10'000);
  }
  if (process >= 0) ::close(process);
  folder.forget();
  fmt::print(stderr, "{}: down\n", chosen);
  return 0;
}

}  // namespace

void add_up(CLI::App& program, Session& session) {
  {
    auto options = std::make_shared<UpOptions>();
    auto command = program.add_subcommand("up", "Start a cluster: head, agents and a worker process per lane");
    command->add_option("file", options->file, "nestor.cluster/1 file")->required();
    command->add_option("--name", options->name, "Another name than the file's");
    command->add_flag("--foreground", options->foreground, "Stay, and take it down on Ctrl-C or with the parent");
    command->add_flag("--slurm", options->slurm, "Print a job script for sbatch instead");
    for (const ClusterSettings::Name& setting : ClusterSettings::names()) {
      const std::string standard = setting.standard.empty() ? "" : ", " + setting.standard;
      command
          ->add_option(setting.option, options->settings[setting.variable],
                       setting.meaning + " (" + setting.variable + standard + ")")
          ->group("Limits, also read from the environment");
    }
    command->footer(
        "Example:\n  nestor up examples/clusters/two_lanes.yaml\n"
        "  nestor up lab.yaml --silence-ms 5000 --transports tcp,self --net-devices eth1 --port-range 47000-47100");
    command->callback([options, &session] { session.action = [options] { return up(*options); }; });
  }
  {
    auto name = std::make_shared<std::string>();
    auto command = program.add_subcommand("down", "End a cluster: its job saves, then all processes end");
    command->add_option("name", *name, "Its name; may be left out when one runs");
    command->footer("Example:\n  nestor down lab");
    command->callback([name, &session] { session.action = [name] { return down(*name); }; });
  }
  {
    auto name = std::make_shared<std::string>();
    auto node = program.add_subcommand("node", "A process of a cluster; nestor up starts them")->group("");
    node->require_subcommand(1);
    auto head = node->add_subcommand("head");
    head->add_option("name", *name)->required();
    head->callback([name, &session] {
      session.action = [name, &session] { return run_head(*name, session.build, session.types); };
    });
    node->add_subcommand("agent")->callback([&session] {
      session.action = [&session] { return run_agent(read_text("-", 1 << 20), session.build, session.types); };
    });
    node->add_subcommand("actors")->callback(
        [&session] { session.action = [&session] { return run_actors(read_text("-", 1 << 20), session.types); }; });
    node->add_subcommand("worker")->callback(
        [&session] { session.action = [&session] { return run_worker(read_text("-", 1 << 20), session.build); }; });
  }
}

}  // namespace nestor::launch
