#pragma once
// Inside actors/remote/.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <nestor/comm/status.h>

namespace nestor::actors::remote {

/// Calls `each` with every envelope in a link message: one, or several that an Outbox put together. False where it is
/// malformed.
bool each_envelope(std::string_view message, const std::function<void(std::string_view envelope)>& each);

class Flusher;

/// Envelopes on their way to one peer, in order. One that comes alone is sent at once by its caller; those that come
/// while others are under way are put together into messages by the flusher's thread, since a message costs more than
/// the few bytes of a call. Any thread.
class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  using Transmit = std::function<comm::Status(std::string message)>;
  Outbox(Flusher& flusher, Transmit transmit) : flusher_(flusher), transmit_(std::move(transmit)) {}

  /// `alone`: nothing else is expected soon. Empty, or why it cannot be sent.
  std::string send(std::string envelope, bool alone);
  /// Envelopes that were sent.
  std::uint64_t sent() const {
    std::lock_guard lock(mutex_);
    return sent_;
  }

 private:
  friend class Flusher;
  void flush();

  static constexpr std::size_t kMessage = 64 << 10;   ///< bytes put together at most
  static constexpr std::size_t kWaiting = 256 << 20;  ///< bytes; more are refused

  Flusher& flusher_;
  const Transmit transmit_;
  mutable std::mutex mutex_;
  std::uint64_t sent_ = 0;
  std::deque<std::string> waiting_;  ///< messages; only the last may still grow
  std::size_t waiting_bytes_ = 0;
  bool flushing_ = false;
};

/// The thread that sends what waits in outboxes.
class Flusher {
 public:
  Flusher();
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;
  void add(std::shared_ptr<Outbox> outbox);
  /// Ends the thread; what waits is lost.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Outbox>> due_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nestor::actors::remote
