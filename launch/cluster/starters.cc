#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nestor/launch/cluster/starters.h>

namespace nestor::launch {
namespace {

const std::vector<std::string> kAgentArguments{"node", "agent"};

std::string ssh_target(const ClusterFile::Host& host) {
  return host.ssh.empty() ? host.host : host.ssh;
}

/// `variables` with the host's own over them, as words of env(1).
std::vector<std::string> assignments(const ClusterFile::Host& host, std::map<std::string, std::string> variables) {
  for (const auto& [name, value] : host.env) variables[name] = value;
  std::vector<std::string> words;
  for (const auto& [name, value] : variables) words.push_back(name + "=" + value);
  return words;
}

}  // namespace

std::string shell_word(std::string_view text) {
  auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string word = "'";
  for (char c : text) {
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  }
  return word + "'";
}

std::vector<std::string> agent_command(ClusterFile::Launch launch, const ClusterFile::Host& host,
                                       const std::string& binary, const std::map<std::string, std::string>& variables) {
  std::vector<std::string> program{binary};
  program.insert(program.end(), kAgentArguments.begin(), kAgentArguments.end());
  if (launch == ClusterFile::Launch::local) return program;

  auto words = assignments(host, variables);
  if (!words.empty()) {
    words.insert(words.begin(), "env");
    program.insert(program.begin(), words.begin(), words.end());
  }
  std::vector<std::string> command;
  if (launch == ClusterFile::Launch::ssh) {
    // Without a terminal there is nobody to ask; a host that does not answer must not hold `up` for minutes.
    command = {"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", ssh_target(host), "--"};
    std::string line;  // ssh joins its words by blanks, and a shell over there reads them
    for (const auto& word : program) line += (line.empty() ? "" : " ") + shell_word(word);
    command.push_back("exec " + line);
  } else {
    // --overlap: a step of its own for each host beside the one that `up` may run in.
    command = {"srun", "--nodes=1", "--ntasks=1", "--overlap", "--unbuffered", "--nodelist=" + host.host, "--"};
    command.insert(command.end(), program.begin(), program.end());
  }
  return command;
}

std::vector<std::string> agent_environment(ClusterFile::Launch launch, const ClusterFile::Host& host,
                                           const std::map<std::string, std::string>& variables) {
  return launch == ClusterFile::Launch::local ? assignments(host, variables) : std::vector<std::string>{};
}

std::string agent_end(ClusterFile::Launch launch, const ClusterFile::Host& host, const std::string& binary,
                      const std::string& cause) {
  if (launch == ClusterFile::Launch::ssh && cause == "exit code 255")
    return "ssh has no connection to " + ssh_target(host) + " (try: ssh -o BatchMode=yes " + ssh_target(host) +
           " true)";
  if (launch != ClusterFile::Launch::local && cause == "exit code 127")
    return "there is no " + binary + " on " + host.host + " (the same path is needed on every host)";
  if (launch != ClusterFile::Launch::local && cause == "exit code 126")
    return binary + " cannot be run on " + host.host + " (is it executable there, and for its processor?)";
  return cause;
}

bool is_this_machine(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool ours = false;
  for (const addrinfo* at = found; at != nullptr && !ours; at = at->ai_next) {  // only its owner can bind an address
    const int descriptor = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
    ours = descriptor >= 0 && ::bind(descriptor, at->ai_addr, at->ai_addrlen) == 0;
    if (descriptor >= 0) ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return ours;
}

std::string slurm_script(const ClusterFile& cluster, const std::string& binary, const std::string& file,
                         const std::map<std::string, std::string>& settings) {
  std::string nodes;
  std::int32_t most = 1;
  for (const auto& host : cluster.hosts) {
    nodes += (nodes.empty() ? "" : ",") + host.host;
    most = std::max(most, host.lanes);
  }
  std::string script = "#!/bin/sh\n";
  script += "#SBATCH --job-name=" + cluster.name + "\n";
  script += "#SBATCH --nodes=" + std::to_string(cluster.hosts.size()) + "\n";
  script += "#SBATCH --nodelist=" + nodes + "\n";
  script += "#SBATCH --ntasks-per-node=1\n";
  script += "#SBATCH --cpus-per-task=" + std::to_string(most) + "\n";
  script += "#SBATCH --signal=B:TERM@60\n";  // a minute before the time is up: finish the step, save, stop
  script += "#SBATCH --output=" + cluster.name + "-%j.log\n";
  for (const auto& [variable, value] : settings) script += "export " + variable + "=" + shell_word(value) + "\n";
  script += "exec " + shell_word(binary) + " up --foreground --name " + cluster.name + " " + shell_word(file) + "\n";
  return script;
}

std::string find_program(const std::string& program, std::string_view path) {
  if (program.find('/') != std::string::npos) return program;
  while (!program.empty()) {
    auto end = path.find(':');
    auto folder = std::string(path.substr(0, end));
    auto file = (folder.empty() ? "." : folder) + "/" + program;
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(file.c_str(), X_OK) == 0) return file;
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  return {};
}

std::string find_program(const std::string& program) {
  const char* path = std::getenv("PATH");
  return find_program(program, path != nullptr ? path : "/usr/bin:/bin");
}

}  // namespace nestor::launch
