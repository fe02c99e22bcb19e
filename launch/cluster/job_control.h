#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <nestor/actors/future.h>
#include <nestor/launch/cluster/job_rows.h>
#include <nestor/launch/cluster/rows.h>
#include <nestor/launch/cluster/step_history.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/training.h>

namespace nestor::launch {

/// A training as others see and steer it while its own thread runs the steps. It runs freely to its end, or is paused
/// but for the steps that it was granted. Any thread, unless said otherwise.
class JobControl final : public StopSource {
 public:
  enum class Start : std::uint8_t { free, paused };
  /// `log` gets every line that the job says, at once, in the thread that says it.
  explicit JobControl(Start start = Start::free, std::function<void(const std::string&)> log = {})
      : log_(std::move(log)), free_(start == Start::free) {}

  int requested() const override;
  int count() const override;
  void on_first(std::function<void()> action) override;
  void on_second(std::function<void()> action) override;
  /// Asks for the end: the first time after the step, then at once. `signal` stands for who asks.
  void stop(int signal);

  /// `steps` more, then it pauses. The future has the row as of then: earlier where somebody pauses it, later where a
  /// fault throws it back meanwhile; also where it ends.
  actors::Future<JobRow> grant(std::int64_t steps);
  /// Freely, to its end; completes then, or when somebody pauses it.
  actors::Future<JobRow> run_on();
  /// After the step under way; completes then. A training that has done all its steps stays, paused, until it is told
  /// to run on or to stop.
  actors::Future<JobRow> pause();
  /// Between two steps. Never fails: where the training ends before, that is the answer.
  actors::Future<JobAnswer> ask(JobRequest request);
  /// The training's thread, between steps: does what was asked, returns when the next step may be taken, when the
  /// training has failed and when it is to stop.
  void between_steps(StandingTraining& training);

  void say(const std::string& line);
  void show(const std::function<void(JobRow&)>& change);
  JobRow row() const;
  /// What was said from line `next` on; completes when there is something new, a step more, or the end.
  actors::Future<JobOutput> output(std::uint64_t next);
  /// How it stands, without the lines; `next` is the number of those said so far.
  JobOutput look() const;
  /// Steps done after step `after`, at most kHistoryPart of them; of those long past only some (step_history.h).
  std::vector<StepRow> history(std::int64_t after) const;
  static constexpr std::size_t kHistoryPart = 10'000;
  /// The training has ended; whoever waits hears it.
  void end(int exit_code, const std::string& error);
  bool ended() const;
  bool began() const;  ///< it has come before its first step: what was asked for could be done

 private:
  struct Asked {
    JobRequest request;
    std::shared_ptr<actors::Promise<JobAnswer>> done;
  };
  struct Listener {
    std::uint64_t next;
    std::shared_ptr<actors::Promise<JobOutput>> promise;
  };
  struct Waiter {
    std::int64_t until;  ///< this step, or the next pause
    std::shared_ptr<actors::Promise<JobRow>> promise;
  };

  JobOutput output_from(std::uint64_t next) const;
  void tell(std::unique_lock<std::mutex>& lock);
  actors::Future<JobRow> wait_until(std::int64_t step, std::unique_lock<std::mutex>& lock);
  void tell_waiting(std::unique_lock<std::mutex>& lock);
  void serve_one(StandingTraining& training, std::unique_lock<std::mutex>& lock);
  void publish(StandingTraining& training, std::unique_lock<std::mutex>& lock);

  static constexpr std::size_t kKeptLines = 2000;
  static constexpr std::size_t kKeptSteps = 5'000;  ///< and as many of those before

  const std::function<void(const std::string&)> log_;
  mutable std::mutex mutex_;
  std::condition_variable steered_;
  int requested_ = 0, count_ = 0;
  std::function<void()> first_, second_;
  bool free_;
  std::int64_t allowed_ = 0;  ///< steps up to this one may be taken
  std::int64_t granted_ = 0;  ///< by those who asked before the training knew its step
  bool stands_ = false;       ///< the training has come between two steps, once at least
  std::vector<Waiter> waiting_;
  std::deque<Asked> asked_;
  std::deque<std::string> lines_;
  std::uint64_t first_line_ = 0;  ///< number of lines_.front()
  std::vector<Listener> listeners_;
  StepHistory history_{kKeptSteps};
  JobRow row_;
  bool ended_ = false;
  int exit_code_ = 0;
  std::string error_;
};

}  // namespace nestor::launch
