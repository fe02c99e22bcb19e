#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include <nestor/comm/channel.h>

namespace nestor::actors {

/// A lane's end of the fabric during one run: its keys, and where its waits end (arrival, deadline or an abort of the
/// generation).
struct LaneLink {
  comm::Channel& channel;
  std::int32_t lane = 0;
  std::uint64_t generation = 0;
  std::uint64_t run = 0;
  comm::Deadline deadline = comm::Deadline::max();

  comm::Key key(std::uint64_t tag) const { return {generation, run, tag}; }
};

/// A wait or send that ended by abort. Every other bad end is an Error.
class Aborted : public std::exception {
 public:
  explicit Aborted(std::string cause) : cause_(std::move(cause)) {}
  const char* what() const noexcept override { return cause_.c_str(); }

 private:
  std::string cause_;
};

/// Turns a channel's status into an exception, once: Aborted, or Error naming the lane.
void check(const comm::Status& status, std::int32_t lane);

/// Of the hosts' steady clock.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(comm::Clock::now().time_since_epoch()).count();
}

}  // namespace nestor::actors
