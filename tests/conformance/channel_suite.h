#pragma once
// What every channel backend must do. A backend joins in its own file:
//
//   INSTANTIATE_TEST_SUITE_P(Inproc, ChannelConformance, testing::Values(Backend{"inproc", comm::make_inproc_fabric}));
//
// The suite drives all lanes of a fabric from one process; each lane's calls stay on one thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/comm.h>

namespace nestor::comm {

struct Backend {
  std::string name;
  std::function<std::unique_ptr<Fabric>(std::int32_t lanes)> make;
  bool by_reference = true;  ///< a message arrives within send, at the address it was sent from
};
inline std::ostream& operator<<(std::ostream& out, const Backend& backend) {
  return out << backend.name;
}

class ChannelConformance : public testing::TestWithParam<Backend> {
 protected:
  static std::unique_ptr<Fabric> fabric(std::int32_t lanes) { return GetParam().make(lanes); }

  /// Messages dropped so far; `expected` of them, once those that were sent are there. By reference they are at once.
  static std::uint64_t dropped(Channel& channel, std::uint64_t expected) {
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (!GetParam().by_reference && channel.counters().stale_dropped < expected && Clock::now() < end) {
      channel.poll(0, {~0ULL, 0, 0});  // lets it arrive
    }
    return channel.counters().stale_dropped;
  }
};

/// Long enough that only a hang reaches it.
inline Deadline soon() {
  return Clock::now() + std::chrono::seconds(20);
}
inline Deadline past() {
  return Clock::now() - std::chrono::seconds(1);
}

/// A buffer of `count` int64 values, each `value`; `freed` is set to true when its memory is.
inline Buffer numbers(std::int64_t value, std::int64_t count = 1, std::shared_ptr<bool> freed = nullptr) {
  auto* memory = new std::vector<std::int64_t>(static_cast<std::size_t>(count), value);
  Buffer buffer;
  buffer.descriptor = {DType::int64, Device{}, {count}};
  buffer.data = memory->data();
  buffer.owner = std::shared_ptr<const void>(memory, [freed](const void* owned) {
    if (freed) *freed = true;
    delete static_cast<const std::vector<std::int64_t>*>(owned);
  });
  return buffer;
}

inline std::int64_t first(const Message& message) {
  return *static_cast<const std::int64_t*>(message.at(0).data);
}

/// Posts and waits.
inline Status receive(Channel& channel, std::int32_t from, const Key& key, Message* out) {
  if (Status status = channel.post_recv(from, key); !status.ok()) return status;
  return channel.wait(from, key, soon(), out);
}

}  // namespace nestor::comm
