#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <nestor/comm/channel.h>

namespace nestor::comm {

/// Settings of a UCX end; empty strings leave the choice to UCX and its own environment (UCX_TLS, UCX_NET_DEVICES,
/// ...).
struct UcxOptions {
  std::string transports;                      ///< "posix,cma,self" opens no port; "tcp,self"; "rc,tcp,self"
  std::string net_devices;                     ///< "eth1"; an unknown one is an error
  std::string port_range;                      ///< "47000-47100", TCP
  std::uint64_t secret = 0;                    ///< the cluster's: messages with another one are dropped and counted
  std::size_t window = std::size_t{64} << 20;  ///< bytes that a sender may have under way to one peer before it waits
  std::chrono::milliseconds stall{10'000};     ///< a peer that takes nothing for so long is given up (peer_lost)
  std::size_t keep = 0;                        ///< bytes of freed receive memory kept for reuse; 0: two windows
};

/// A lane's end in a process of its own. Peers are made known by their addresses, which travel over links; both ends
/// must know each other, since an end answers only peers it knows. A peer is lost when its process ends, when it says
/// goodbye, when its connection breaks, or when it is silent for `stall` while it owes something; a peer that merely
/// computes is not silent. Waits for what has not arrived and sends to it then end with peer_lost until set_peer.
/// Received memory may outlive the channel. Closing it waits up to a second for what was sent to leave.
class UcxChannel : public Channel {
 public:
  /// Opaque bytes that another process needs to reach this end. Lives as long as the channel.
  virtual const std::string& address() const = 0;
  /// From now on `lane` is reached at `address`; a connection to an older one is closed first. Any thread; takes effect
  /// before the next send. Throws std::invalid_argument for bytes that are no address of that lane, std::runtime_error
  /// where no transport reaches it.
  virtual void set_peer(std::int32_t lane, const std::string& address) = 0;
  /// Gives a peer's connection up at once: sends to it fail with peer_lost, buffers under way are free. Any thread.
  virtual void drop_peer(std::int32_t lane, const std::string& cause) = 0;
  /// The transports and interfaces in use, for people: "posix cma" or "tcp/eth1".
  virtual std::string transports() const = 0;
  virtual std::uint64_t foreign_dropped() const = 0;    ///< messages with a wrong secret
  virtual std::uint64_t malformed_dropped() const = 0;  ///< messages that no end of this cluster sends, or sent twice
};

/// Throws std::runtime_error with the reason (unknown device, no such transport).
std::unique_ptr<UcxChannel> open_ucx_channel(std::int32_t lane, std::int32_t lanes, const UcxOptions& options = {});

/// All lanes' ends in one process, each with a worker of its own, connected to each other: for tests and benchmarks.
std::unique_ptr<Fabric> make_ucx_fabric(std::int32_t lanes, const UcxOptions& options = {});

}  // namespace nestor::comm
