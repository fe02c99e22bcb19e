#pragma once
// Lanes in processes of their own, for tests that lose them. A peer is this test program started again: its disabled
// test UcxPeer.DISABLED_Main reads its orders from the environment and a socket.

#include <memory>
#include <string>

#include <sys/types.h>

#include <nestor/comm/ucx.h>

namespace nestor::comm::test {

constexpr std::int64_t kStreamCount = std::int64_t{1} << 20;  ///< int64 values in each message of a stream: 8 MiB

/// `count` int64 values, each `value`.
Buffer numbers(std::int64_t value, std::int64_t count);
std::int64_t first(const Message& message);

/// A child process that holds lane `lane` of three and is connected to lane 0, ours.
class PeerProcess {
 public:
  /// What it does: "stream" sends messages of kStreamCount values to lane 0 under keys {generation, i, lane} until it
  /// is told to end or fails; "sink" receives such messages from lane 0; "echo" answers each {generation, i, lane} by
  /// {generation, i, lane + 100}.
  PeerProcess(std::int32_t lane, const std::string& orders, const UcxOptions& options, UcxChannel& ours,
              std::uint64_t generation = 1);
  ~PeerProcess();  ///< kills it if it is there
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  void signal(int number) const;
  void reap();  ///< waits for its end
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

}  // namespace nestor::comm::test
