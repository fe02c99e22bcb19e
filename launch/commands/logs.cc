#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <nestor/actors/future.h>
#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/commands/command.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/interrupts.h>

namespace nestor::launch {
namespace {

using namespace std::chrono_literals;

struct LogsOptions {
  std::string actor, cluster;
  bool follow = false;
};

/// A log file, read on from where it was left. A line is printed whole or not yet. `only`: the lines that bear this
/// name; a process on another host has them in its agent's log.
class Tail {
 public:
  Tail(std::filesystem::path file, std::string only) : file_(std::move(file)), only_(std::move(only)) {}
  /// Were there any?
  bool print_new() {
    bool any = false;
    std::ifstream in(file_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(at_));
    std::string line;
    while (std::getline(in, line) && !in.eof()) {
      at_ += line.size() + 1;
      const bool named = line.find('[') <= kTime && line.find("] ") != std::string::npos;
      if (!only_.empty() && (!named || line.find("[" + only_ + "] ") > kTime)) continue;
      std::cout << (named ? "" : "[" + file_.stem().string() + "] ") << line << '\n';
      any = true;
    }
    std::cout << std::flush;
    return any;
  }

 private:
  static constexpr std::size_t kTime = 20;  ///< "2026-01-31 12:00:00 " may stand before "[lane0] "

  std::filesystem::path file_;
  const std::string only_;
  std::size_t at_ = 0;
};

ClusterFolder folder_of(const std::string& name) {
  if (!name.empty()) {  // also of one that has ended
    ClusterFolder folder(name);
    if (std::filesystem::exists(folder.path() / "logs")) return folder;
  }
  if (name.empty() && ClusterFolder::running().empty()) {  // after its end is when one asks: the only one there was
    std::vector<std::string> ended;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(ClusterFolder::home(), error))
      if (std::filesystem::exists(entry.path() / "logs")) ended.push_back(entry.path().filename().string());
    if (ended.size() == 1) return ClusterFolder(ended.front());
  }
  return ClusterFolder::find_running(name);
}

int logs(const LogsOptions& options) {
  const ClusterFolder folder = folder_of(options.cluster);
  const std::string wanted = options.actor == "cluster" ? "head" : options.actor;
  std::map<std::string, Tail> tails;
  Interrupts interrupts;
  auto wake = std::make_shared<actors::Promise<void>>();
  auto woken = wake->future();
  interrupts.on_first([wake] { wake->set_value(); });
  for (;;) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "logs")) {
      const std::string name = entry.path().stem().string();
      if (options.actor.empty() || wanted == name) tails.try_emplace(name, entry.path(), "");
    }
    if (tails.empty() && (wanted.starts_with("lane") || wanted.starts_with("actors")))
      for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "logs"))
        if (const std::string name = entry.path().stem().string(); name.starts_with("agent"))
          tails.try_emplace(name, entry.path(), wanted);
    bool any = tails.contains(wanted) || options.follow || options.actor.empty();
    for (auto& [name, tail] : tails) any = tail.print_new() || any;
    if (tails.empty() || !any)
      throw InputError("logs", "there are none of \"" + one_line(options.actor, 60) + "\"",
                       "nestor list actors names them");
    if (!options.follow || interrupts.requested() || woken.wait_for(200ms)) return 0;
  }
}

}  // namespace

void add_logs(CLI::App& program, Session& session) {
  auto options = std::make_shared<LogsOptions>();
  auto command = program.add_subcommand("logs", "Print the logs of a cluster's processes, prefixed by their names");
  command->add_option("actor", options->actor, "head, agent0, lane1, ...; all where left out");
  command->add_option("--cluster", options->cluster, "Its name; may be left out when one runs")->type_name("NAME");
  command->add_flag("-f,--follow", options->follow, "Go on until Ctrl-C");
  command->footer("Example:\n  nestor logs -f");
  command->callback([options, &session] { session.action = [options] { return logs(*options); }; });
}

}  // namespace nestor::launch
