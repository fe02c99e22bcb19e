#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nestor::launch {

/// nestor.cluster/1 (docs/formats.md): where a cluster's processes run.
struct ClusterFile {
  enum class Launch : std::uint8_t { local, ssh, slurm };
  struct Host {
    std::string host;
    std::int32_t lanes = 1;
    std::string ssh;                               ///< "user@10.0.0.2"; empty: the host's name
    std::map<std::string, std::string> env;        ///< for its agent and workers
    std::map<std::string, double> resources = {};  ///< that users' actors may take; cpus: its cores where not given
  };
  std::string name = "nestor";
  std::string head_host = "127.0.0.1";
  std::int32_t head_port = 0;  ///< 0: any
  std::vector<Host> hosts;
  Launch launch = Launch::local;

  std::int32_t lanes() const;
  /// All processes on this machine.
  bool one_host() const;
  /// UCX's transports: on one host those that open no port; empty: what UCX finds.
  std::string transports() const;
};

/// Strict. Throws InputError or modules::Error naming the field.
ClusterFile read_cluster_file(const std::string& text, const std::string& source);

}  // namespace nestor::launch
