#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <nestor/comm/link.h>
#include <nestor/comm/ucx.h>

namespace nestor::launch {

/// Every limit of a cluster in one place (docs/cluster.md lists them). Read from the environment of `nestor up`; the
/// head hands them on to agents and workers.
struct ClusterSettings {
  std::chrono::milliseconds heartbeat{400};       ///< NESTOR_HEARTBEAT_MS: sign of life on an idle link
  std::chrono::milliseconds silence{1500};        ///< NESTOR_SILENCE_MS: a process silent for so long is lost
  std::chrono::milliseconds reap{1000};           ///< NESTOR_REAP_MS: wait for a lost process's exit cause
  std::chrono::milliseconds start_limit{60'000};  ///< NESTOR_START_MS: a process that has not joined by then is lost
  std::chrono::milliseconds head_limit{5'000};    ///< NESTOR_HEAD_MS: agents and workers end this long after the head
  std::chrono::milliseconds mend_limit{120'000};  ///< NESTOR_MEND_MS: a job waits so long for its lanes to come back
  std::chrono::milliseconds restart_pause{200};   ///< NESTOR_RESTART_PAUSE_MS: doubled at each quick death
  std::int32_t max_restarts = 100;                ///< NESTOR_MAX_RESTARTS: of one process
  std::chrono::milliseconds stall{10'000};        ///< NESTOR_STALL_MS: a lane that takes no bytes for so long is lost
  std::int64_t window_bytes = std::int64_t{64} << 20;  ///< NESTOR_WINDOW_BYTES: under way from one lane to another
  std::string transports;                              ///< NESTOR_TRANSPORTS: "posix,cma,self"; empty: by the hosts
  std::string net_devices;                             ///< NESTOR_NET_DEVICES
  std::string port_range;                              ///< NESTOR_PORT_RANGE: "47000-47100"

  /// Throws InputError naming the variable that makes no sense.
  static ClusterSettings from_environment();
  /// The variables that differ from the defaults, with their values: for the processes of the cluster.
  std::map<std::string, std::string> environment() const;
  comm::LinkOptions link() const;
  comm::UcxOptions ucx(std::uint64_t secret) const;
};

}  // namespace nestor::launch
