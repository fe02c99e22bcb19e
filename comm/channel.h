#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <nestor/comm/buffer.h>
#include <nestor/comm/status.h>

namespace nestor::comm {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// Opaque to comm/: a generation and a tag that actors/ forms from (step, edge, microbatch, direction).
struct Key {
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  std::uint64_t tag = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

struct Counters {
  std::uint64_t sent_messages = 0, sent_bytes = 0, received_messages = 0, received_bytes = 0;
  std::uint64_t stale_dropped = 0;  ///< messages of an older generation, dropped
};

/// One lane's end of the fabric. Moves messages between lanes by key: a receive takes the message of its key whatever
/// the order of arrival. Each key is sent once and received once.
///
/// Thread: send, post_recv, wait and poll belong to the lane's own thread; abort, set_generation, counters may be
/// called from any thread. Every wait ends by arrival, deadline or abort.
class Channel {
 public:
  virtual ~Channel() = default;

  /// Hands a message to the peer lane. Never blocks on the peer's reading it; may block on flow control until
  /// `deadline`. The message's buffers must not be written afterwards (Buffer::reusable says when they may be).
  virtual Status send(std::int32_t to, const Key& key, Message message, Deadline deadline) = 0;
  /// Announces that `key` will be waited for, so that its bytes can arrive in place. At most once per key.
  virtual Status post_recv(std::int32_t from, const Key& key) = 0;
  /// Waits for a posted key. Code::ok moves the message to `out`.
  virtual Status wait(std::int32_t from, const Key& key, Deadline deadline, Message* out) = 0;
  /// True when `wait` on this key would not block.
  virtual bool poll(std::int32_t from, const Key& key) = 0;

  /// Ends all waits of generations up to and including `generation` with Code::aborted and drops their messages.
  virtual void abort(std::uint64_t generation, const std::string& cause) = 0;
  /// The generation from which keys are accepted; older messages are dropped and counted.
  virtual void set_generation(std::uint64_t generation) = 0;
  virtual Counters counters() const = 0;
};

/// A backend: the lanes' ends of one fabric.
class Fabric {
 public:
  virtual ~Fabric() = default;
  /// The lane's end; the same object for every call. Lives as long as the fabric. Any thread.
  virtual Channel& channel(std::int32_t lane) = 0;
  virtual std::int32_t lanes() const = 0;
  virtual std::string name() const = 0;
};

/// Lanes of one process: messages pass by reference, nothing is copied. A send never blocks. comm/backends/inproc/.
std::unique_ptr<Fabric> make_inproc_fabric(std::int32_t lanes);

}  // namespace nestor::comm
