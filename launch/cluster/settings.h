#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nestor/comm/link.h>
#include <nestor/comm/ucx.h>

namespace nestor::launch {

/// Every limit of a cluster in one place (docs/cluster.md lists them). Read from the options of `nestor up`, else from
/// its environment; the head hands them on to agents and workers.
struct ClusterSettings {
  std::chrono::milliseconds heartbeat{400};
  std::chrono::milliseconds silence{1500};
  std::chrono::milliseconds reap{1000};
  std::chrono::milliseconds start_limit{60'000};
  std::chrono::milliseconds head_limit{5'000};
  std::chrono::milliseconds mend_limit{120'000};
  std::chrono::milliseconds restart_pause{200};
  std::int32_t max_restarts = 100;
  std::chrono::milliseconds stall{10'000};
  std::int64_t window_bytes = std::int64_t{64} << 20;
  std::string transports, net_devices, port_range;

  /// One of them as people write it.
  struct Name {
    std::string variable;  ///< NESTOR_SILENCE_MS
    std::string option;    ///< --silence-ms
    std::string meaning;   ///< one line
    std::string standard;  ///< its default; may be empty
  };
  static std::vector<Name> names();

  /// From the environment; `given`, by variable, goes before it. Throws InputError naming the variable, or the option
  /// where it was given, that makes no sense.
  static ClusterSettings from_environment(const std::map<std::string, std::string>& given = {});
  /// The variables that differ from the defaults, with their values: for the processes of the cluster.
  std::map<std::string, std::string> environment() const;
  comm::LinkOptions link() const;
  comm::UcxOptions ucx(std::uint64_t secret) const;
};

}  // namespace nestor::launch
