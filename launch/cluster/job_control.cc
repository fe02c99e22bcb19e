#include <algorithm>
#include <limits>
#include <utility>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/job_control.h>
#include <nestor/launch/cluster/job_requests.h>
#include <nestor/launch/exit.h>

namespace nestor::launch {
namespace {

constexpr std::int64_t kNextPause = std::numeric_limits<std::int64_t>::max();

}  // namespace

int JobControl::requested() const {
  std::lock_guard lock(mutex_);
  return requested_;
}

int JobControl::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

void JobControl::on_first(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  first_ = std::move(action);
}

void JobControl::on_second(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  second_ = std::move(action);
}

void JobControl::stop(int signal) {
  std::function<void()> action;
  {
    std::lock_guard lock(mutex_);
    const bool first = count_++ == 0;
    if (first) requested_ = signal;
    action = first ? first_ : second_;
  }
  steered_.notify_all();
  if (action) action();
}

actors::Future<JobRow> JobControl::wait_until(std::int64_t step, std::unique_lock<std::mutex>& lock) {
  auto promise = std::make_shared<actors::Promise<JobRow>>();
  auto future = promise->future();
  if (ended_) {
    const JobRow row = row_;
    lock.unlock();
    promise->set_value(row);
  } else {
    waiting_.push_back({step, std::move(promise)});
    lock.unlock();
  }
  steered_.notify_all();
  return future;
}

actors::Future<JobRow> JobControl::grant(std::int64_t steps) {
  std::unique_lock lock(mutex_);
  const bool paused = stands_ && row_.state == "paused";
  if (free_ && stands_) allowed_ = row_.step;
  free_ = false;
  if (!stands_) {
    granted_ += steps;
    return wait_until(kNextPause, lock);
  }
  allowed_ = (paused ? row_.step : std::max(allowed_, row_.step)) + steps;
  if (paused) row_.state = "running";  // so that the next one who asks adds to it
  return wait_until(allowed_, lock);
}

actors::Future<JobRow> JobControl::run_on() {
  std::unique_lock lock(mutex_);
  free_ = true;
  return wait_until(kNextPause, lock);
}

actors::Future<JobRow> JobControl::pause() {
  std::unique_lock lock(mutex_);
  free_ = false;
  allowed_ = granted_ = 0;
  return wait_until(kNextPause, lock);
}

actors::Future<JobAnswer> JobControl::ask(JobRequest request) {
  auto done = std::make_shared<actors::Promise<JobAnswer>>();
  auto future = done->future();
  std::unique_lock lock(mutex_);
  if (ended_) {
    lock.unlock();
    done->set_value(JobAnswer{"", failed, "job: has ended"});
  } else {
    asked_.push_back({std::move(request), std::move(done)});
    lock.unlock();
    steered_.notify_all();
  }
  return future;
}

void JobControl::between_steps(StandingTraining& training) {
  std::unique_lock lock(mutex_);
  publish(training, lock);
  if (!std::exchange(stands_, true)) allowed_ = row_.step + std::exchange(granted_, 0);
  for (;;) {
    while (!asked_.empty()) {
      serve_one(training, lock);
      if (training.failed()) return;
    }
    if (requested_ != 0 || free_) break;
    if (row_.step < row_.steps && row_.step < allowed_) break;
    allowed_ = row_.step;
    row_.state = "paused";
    if (!waiting_.empty()) {
      tell_waiting(lock);
      continue;  // they may have asked for more meanwhile
    }
    tell(lock);
    lock.lock();
    steered_.wait(
        lock, [&] { return !asked_.empty() || !waiting_.empty() || requested_ != 0 || free_ || allowed_ > row_.step; });
  }
  row_.state = requested_ != 0 ? "stopping" : "running";
  tell_waiting(lock);
}

/// Those whose step is done, and where it is paused all.
void JobControl::tell_waiting(std::unique_lock<std::mutex>& lock) {
  std::vector<Waiter> told;
  const bool all = row_.state == "paused";
  for (Waiter& waiter : std::exchange(waiting_, {}))
    (all || waiter.until <= row_.step ? told : waiting_).push_back(std::move(waiter));
  if (told.empty()) return;
  const JobRow row = row_;
  tell(lock);
  for (const Waiter& waiter : told) waiter.promise->set_value(row);
  lock.lock();
}

void JobControl::serve_one(StandingTraining& training, std::unique_lock<std::mutex>& lock) {
  const Asked asked = std::move(asked_.front());
  asked_.pop_front();
  lock.unlock();
  CarriedOut carried = carry_out(asked.request, training);
  if (!carried.news.empty()) say(carried.news);
  lock.lock();
  if (!training.failed()) publish(training, lock);
  lock.unlock();
  asked.done->set_value(std::move(carried.answer));
  lock.lock();
}

/// What others see of the training, as it stands.
void JobControl::publish(StandingTraining& training, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const std::int64_t step = training.job().steps_done();
  auto pools = pools_of(training);
  const std::string policy = training.job().schedule().policy;
  lock.lock();
  history_.go_back_to(step);
  const std::int64_t known = history_.empty() ? 0 : history_.last().step;
  lock.unlock();
  const auto fresh = training.metrics_after(known);  // may read a file
  lock.lock();
  row_.step = step;
  row_.steps = training.config().run.steps;
  row_.pools = std::move(pools);
  row_.policy = policy;
  for (const StepMetrics& line : fresh) {
    const actors::StepReport& report = line.report;
    history_.add({report.step, report.loss, report.losses, report.grad_norm, report.skipped, report.tokens,
                  report.samples, report.seconds, report.bubble});
  }
  if (!history_.empty()) {
    const StepRow& last = history_.last();
    row_.loss = last.loss;
    row_.losses = last.losses;
    if (last.seconds > 0) row_.samples_per_second = static_cast<double>(last.samples) / last.seconds;
  }
  tell(lock);
  lock.lock();
}

std::vector<StepRow> JobControl::history(std::int64_t after) const {
  std::lock_guard lock(mutex_);
  return history_.after(after, kHistoryPart);
}

JobOutput JobControl::look() const {
  std::lock_guard lock(mutex_);
  return output_from(first_line_ + lines_.size());
}

void JobControl::say(const std::string& line) {
  if (log_) log_(line);
  std::unique_lock lock(mutex_);
  lines_.push_back(line);
  if (lines_.size() > kKeptLines) {
    lines_.pop_front();
    ++first_line_;
  }
  tell(lock);
}

void JobControl::show(const std::function<void(JobRow&)>& change) {
  std::unique_lock lock(mutex_);
  change(row_);
  tell(lock);
}

JobRow JobControl::row() const {
  std::lock_guard lock(mutex_);
  return row_;
}

JobOutput JobControl::output_from(std::uint64_t next) const {
  JobOutput output;
  next = std::max(next, first_line_);
  for (std::size_t at = next - first_line_; at < lines_.size(); ++at) output.lines.push_back(lines_[at]);
  output.next = first_line_ + lines_.size();
  output.ended = ended_;
  output.exit_code = exit_code_;
  output.error = error_;
  output.job = row_;
  return output;
}

void JobControl::tell(std::unique_lock<std::mutex>& lock) {
  std::vector<std::pair<std::shared_ptr<actors::Promise<JobOutput>>, JobOutput>> told;
  for (Listener& listener : std::exchange(listeners_, {}))
    told.emplace_back(listener.promise, output_from(listener.next));
  lock.unlock();
  for (auto& [promise, output] : told) promise->set_value(std::move(output));
}

actors::Future<JobOutput> JobControl::output(std::uint64_t next) {
  auto promise = std::make_shared<actors::Promise<JobOutput>>();
  auto future = promise->future();
  std::unique_lock lock(mutex_);
  if (ended_ || next < first_line_ + lines_.size()) {
    promise->set_value(output_from(next));
  } else {
    listeners_.push_back({next, std::move(promise)});
  }
  return future;
}

void JobControl::end(int exit_code, const std::string& error) {
  if (log_) log_(error.empty() ? "ended with exit code " + std::to_string(exit_code) : "failed: " + error);
  std::deque<Asked> left;
  std::vector<Waiter> waiting;
  std::unique_lock lock(mutex_);
  ended_ = true;
  exit_code_ = exit_code;
  error_ = error;
  row_.state = exit_code == 0 ? "done" : error.empty() ? "stopped" : "failed";
  row_.cause = error;
  left.swap(asked_);
  waiting.swap(waiting_);
  const JobRow row = row_;
  tell(lock);
  for (const Waiter& waiter : waiting) waiter.promise->set_value(row);
  for (const Asked& asked : left)
    asked.done->set_value(JobAnswer{"", failed, "job: has ended" + (error.empty() ? "" : ": " + error)});
}

bool JobControl::began() const {
  std::lock_guard lock(mutex_);
  return stands_;
}

bool JobControl::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace nestor::launch
