#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace nestor::launch {

/// Whoever may ask a long work to stop. Any thread.
class StopSource {
 public:
  virtual ~StopSource() = default;
  /// The signal that asked to stop, or one that stands for another asker; 0: nobody has.
  virtual int requested() const = 0;
  /// How often.
  virtual int count() const = 0;
  /// Called at the first request; an empty function lets go of the old one.
  virtual void on_first(std::function<void()> action) = 0;
  /// Called at every further one.
  virtual void on_second(std::function<void()> action) = 0;
};

/// Ctrl-C (SIGINT) and SIGTERM as a request, for as long as it lives. The first asks the work to stop after its step;
/// every further one calls what `on_second` was given. Callbacks run on a thread of its own, so they may lock and call
/// anything. Signals belong to the process, so one object at a time catches them; it puts back what was there before.
class Interrupts final : public StopSource {
 public:
  Interrupts();
  ~Interrupts() override;
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int requested() const override { return requested_.load(); }
  int count() const override { return count_.load(); }
  void on_first(std::function<void()> action) override;
  void on_second(std::function<void()> action) override;

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
