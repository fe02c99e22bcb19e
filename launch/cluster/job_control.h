#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <nestor/actors/future.h>
#include <nestor/actors/job.h>
#include <nestor/launch/cluster/rows.h>
#include <nestor/launch/interrupts.h>

namespace nestor::launch {

/// A training as others see and steer it while its own thread runs the steps. Any thread, unless said otherwise.
class JobControl final : public StopSource {
 public:
  using Change = std::function<void(actors::Job&)>;

  int requested() const override;
  int count() const override;
  void on_first(std::function<void()> action) override;
  void on_second(std::function<void()> action) override;
  /// Asks for the end: the first time after the step, then at once. `signal` stands for who asks.
  void stop(int signal);

  /// Runs `change` between two steps; the future fails with what it throws, or where the training ends before.
  actors::Future<void> ask(Change change);
  /// The training's thread, between steps.
  void serve(actors::Job& job);

  void say(const std::string& line);
  void show(const std::function<void(JobRow&)>& change);
  JobRow row() const;
  /// What was said from line `next` on; completes when there is something new, a step more, or the end.
  actors::Future<JobOutput> output(std::uint64_t next);
  /// The training has ended; whoever waits hears it.
  void end(int exit_code, const std::string& error);
  bool ended() const;

 private:
  struct Asked {
    Change change;
    std::shared_ptr<actors::Promise<void>> done;
  };
  struct Listener {
    std::uint64_t next;
    std::shared_ptr<actors::Promise<JobOutput>> promise;
  };
  JobOutput output_from(std::uint64_t next) const;
  void tell(std::unique_lock<std::mutex>& lock);

  static constexpr std::size_t kKeptLines = 2000;

  mutable std::mutex mutex_;
  int requested_ = 0, count_ = 0;
  std::function<void()> first_, second_;
  std::deque<Asked> asked_;
  std::deque<std::string> lines_;
  std::uint64_t first_line_ = 0;  ///< number of lines_.front()
  std::vector<Listener> listeners_;
  JobRow row_;
  bool ended_ = false;
  int exit_code_ = 0;
  std::string error_;
};

}  // namespace nestor::launch
