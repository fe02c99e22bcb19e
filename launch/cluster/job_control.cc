#include <algorithm>
#include <utility>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/job_control.h>

namespace nestor::launch {

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
  if (action) action();
}

actors::Future<void> JobControl::ask(Change change) {
  auto done = std::make_shared<actors::Promise<void>>();
  auto future = done->future();
  std::lock_guard lock(mutex_);
  if (ended_) {
    done->fail(std::make_exception_ptr(actors::Error("job", "has ended")));
  } else {
    asked_.push_back({std::move(change), std::move(done)});
  }
  return future;
}

void JobControl::serve(actors::Job& job) {
  for (;;) {
    Asked asked;
    {
      std::lock_guard lock(mutex_);
      if (asked_.empty()) return;
      asked = std::move(asked_.front());
      asked_.pop_front();
    }
    try {
      asked.change(job);
      asked.done->set_value();
    } catch (...) {
      asked.done->fail(std::current_exception());
    }
  }
}

void JobControl::say(const std::string& line) {
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
  std::deque<Asked> left;
  std::unique_lock lock(mutex_);
  ended_ = true;
  exit_code_ = exit_code;
  error_ = error;
  row_.state = exit_code == 0 ? "done" : error.empty() ? "stopped" : "failed";
  row_.cause = error;
  left.swap(asked_);
  tell(lock);
  for (Asked& asked : left) asked.done->fail(std::make_exception_ptr(actors::Error("job", "has ended")));
}

bool JobControl::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace nestor::launch
