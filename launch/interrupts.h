#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace nestor::launch {

/// Ctrl-C (SIGINT) and SIGTERM as a request, for as long as it lives. The first asks the work to stop after its step;
/// every further one calls what `on_second` was given. No signal handler: the two signals are blocked here, and in the
/// threads started afterwards, and a thread of its own waits for them. Make it before any other thread.
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
  /// Called on the waiting thread at the second signal; an empty function lets go of the old one.
  void on_second(std::function<void()> action);
  /// Called on the waiting thread at the first.
  void on_first(std::function<void()> action);

 private:
  void wait();

  sigset_t signals_{}, before_{};
  std::atomic<int> requested_{0}, count_{0};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::function<void()> first_, second_;
  std::thread thread_;
};

}  // namespace nestor::launch
