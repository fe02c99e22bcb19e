#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace nestor::launch {

/// Ctrl-C (SIGINT) and SIGTERM as a request, for as long as it lives. The first asks the work to stop after its step;
/// every further one calls what `on_second` was given. Callbacks run on a thread of its own, so they may lock and call
/// anything. Signals belong to the process, so one object at a time catches them; it puts back what was there before.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// The first signal that asked to stop, or 0.
  int requested() const { return requested_.load(); }
  /// How many came.
  int count() const { return count_.load(); }
  /// Called at the first signal; an empty function lets go of the old one.
  void on_first(std::function<void()> action);
  /// Called at every further one.
  void on_second(std::function<void()> action);

 private:
  void wait();

  int read_end_ = -1, write_end_ = -1;
  struct sigaction before_[2] = {};
  std::atomic<int> requested_{0}, count_{0};
  std::mutex mutex_;
  std::function<void()> first_, second_;
  std::thread thread_;
};

}  // namespace nestor::launch
