#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

#include <nestor/comm/backends/ucx/context.h>

namespace nestor::comm::ucx {

/// A UCP worker, and the received memory of its transports that messages still refer to. Ends when the last of both its
/// engine and those messages has: a message may outlive the channel.
class Worker {
 public:
  struct Retire {
    void operator()(Worker* worker) const { worker->retire(); }
  };
  using Owner = std::unique_ptr<Worker, Retire>;  ///< without the turn when it ends
  /// Throws std::runtime_error.
  static Owner open(std::shared_ptr<Context> context) { return Owner(new Worker(std::move(context))); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  /// UCX aborts where a worker is destroyed whose requests it cannot complete any more: this one stays, unused.
  void give_up() { given_up_ = true; }

  /// A message may refer to a transport's segment instead of copying it out: few at a time, since a segment is held
  /// whole.
  static constexpr unsigned kMaxLent = 64;
  bool may_lend() const { return free_ != nullptr; }
  /// Owns received data until its last reference is gone, on any thread; allocates nothing. The active message's
  /// callback then returns UCS_INPROGRESS. With the turn, and where may_lend.
  std::shared_ptr<const void> lend(void* data);
  /// Gives UCX back what has been returned. With the turn.
  void collect() {
    if (returned_.load(std::memory_order_relaxed) != nullptr) release(returned_.exchange(nullptr));
  }

 private:
  /// A reference count for lent data, used again and again.
  struct Loan {
    Worker* worker = nullptr;
    void* data = nullptr;
    Loan* next = nullptr;  ///< in `free_` or `returned_`
    alignas(std::max_align_t) std::byte count[64];
  };
  template <class T>
  struct Place;

  explicit Worker(std::shared_ptr<Context> context);
  ~Worker();
  void retire();
  void give_back(Loan* loan) noexcept;  ///< any thread
  void release(Loan* returned);

  std::shared_ptr<Context> context_;
  ucp_worker_h worker_ = nullptr;
  bool given_up_ = false;
  std::vector<Loan> loans_;
  Loan* free_ = nullptr;
  unsigned lent_ = 0;                     ///< with the turn, or once retired with `mutex_`
  std::atomic<Loan*> returned_{nullptr};  ///< a stack that is emptied as a whole; `retired_` for ever once retired
  Loan retired_;
  std::mutex mutex_;
};

}  // namespace nestor::comm::ucx
