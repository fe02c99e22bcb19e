#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/launch/cluster/cluster_file.h>

namespace nestor::launch {

/// How an agent comes to run on its host: command lines, and nothing that runs them. Secrets are not among the
/// arguments or variables; the agent reads them on its standard input, which ssh and srun hand on.

/// The command that starts an agent of `binary` on `host`; its first word is a program's name or file. `variables` are
/// for the agent; the host's own ones win. A local agent gets the latter from `agent_environment`, not from the
/// command.
std::vector<std::string> agent_command(ClusterFile::Launch launch, const ClusterFile::Host& host,
                                       const std::string& binary, const std::map<std::string, std::string>& variables);

/// NAME=VALUE for the process that `agent_command` describes: all of a local agent's variables; for ssh and srun, which
/// name them in the command, none.
std::vector<std::string> agent_environment(ClusterFile::Launch launch, const ClusterFile::Host& host,
                                           const std::map<std::string, std::string>& variables);

/// What the end of the command says of the agent: "exit code 255" of ssh is no exit code of the agent's. Otherwise
/// `cause` as it is.
std::string agent_end(ClusterFile::Launch launch, const ClusterFile::Host& host, const std::string& binary,
                      const std::string& cause);

/// Is that a name or an address of this machine's?
bool is_this_machine(const std::string& host);

/// The batch script of a cluster: `sbatch` it, and the cluster lives as long as the job. `file` is the cluster file,
/// whose name `cluster` may replace; `settings` are variables for it.
std::string slurm_script(const ClusterFile& cluster, const std::string& binary, const std::string& file,
                         const std::map<std::string, std::string>& settings = {});

/// `text` as one word of a POSIX shell's command line.
std::string shell_word(std::string_view text);

/// The file that a shell would run for `program`, given a PATH; empty where there is none. With a slash in it, itself.
std::string find_program(const std::string& program, std::string_view path);
/// The same by this process's own PATH.
std::string find_program(const std::string& program);

}  // namespace nestor::launch
