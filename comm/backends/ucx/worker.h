#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <ucp/api/ucp.h>

#include <nestor/comm/backends/ucx/context.h>

namespace nestor::comm::ucx {

/// A UCP worker, and the received memory of its transports that messages still refer to. Ends when the last of both its
/// engine and those messages has: a message may outlive the channel.
class Worker : public std::enable_shared_from_this<Worker> {
 public:
  /// Throws std::runtime_error.
  explicit Worker(std::shared_ptr<Context> context);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  /// UCX aborts where a worker is destroyed whose requests it cannot complete any more: this one stays, unused.
  void give_up() { given_up_ = true; }

  /// A message may refer to a transport's segment instead of copying it out: few at a time, since a segment is held
  /// whole.
  static constexpr unsigned kMaxLent = 64;
  bool may_lend() const { return lent_.load(std::memory_order_relaxed) < kMaxLent; }
  /// Owns received data until its last reference is gone, on any thread. The active message's callback then returns
  /// UCS_INPROGRESS. With the turn.
  std::shared_ptr<const void> lend(void* data);
  /// Gives UCX back what has been returned. With the turn.
  void collect() {
    if (returned_any_.load(std::memory_order_relaxed)) release_returned();
  }

 private:
  void give_back(void* data) noexcept;
  void release_returned();

  std::shared_ptr<Context> context_;
  ucp_worker_h worker_ = nullptr;
  bool given_up_ = false;
  std::atomic<unsigned> lent_{0};
  std::atomic<bool> returned_any_{false};
  std::mutex mutex_;
  std::vector<void*> returned_;
};

}  // namespace nestor::comm::ucx
