#pragma once
// Ends of one process over the transports that a test is instantiated with.

#include <chrono>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/ucx.h>

namespace nestor::comm::test {

/// Long enough that only a hang reaches it.
inline Deadline soon() {
  return Clock::now() + std::chrono::seconds(20);
}

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::int64_t kMiBCount = 1 << 17;  ///< int64 values

class UcxEnds : public testing::TestWithParam<const char*> {
 protected:
  UcxEnds() {
    options_.transports = GetParam();
    options_.secret = 41;
    options_.window = 8 * kMiB;
  }
  void open(std::int32_t lanes) {
    for (std::int32_t lane = 0; lane < lanes; ++lane) ends_.push_back(open_ucx_channel(lane, lanes, options_));
    for (auto& end : ends_) {
      for (std::int32_t peer = 0; peer < lanes; ++peer) {
        if (end != ends_[static_cast<std::size_t>(peer)]) {
          end->set_peer(peer, ends_[static_cast<std::size_t>(peer)]->address());
        }
      }
    }
  }
  UcxChannel& end(std::size_t lane) { return *ends_[lane]; }
  Status receive(std::size_t to, std::int32_t from, const Key& key, Message* out) {
    if (Status status = end(to).post_recv(from, key); !status.ok()) return status;
    return end(to).wait(from, key, soon(), out);
  }

  UcxOptions options_;
  std::vector<std::unique_ptr<UcxChannel>> ends_;
};

/// Drives `end` until `done` or a hang.
template <class Done>
bool until(Channel& end, Done done) {
  const Deadline limit = soon();
  while (!done() && Clock::now() < limit) end.poll(0, {~0ULL, 0, 0});
  return done();
}

}  // namespace nestor::comm::test
