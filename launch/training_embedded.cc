#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/progress.h>
#include <nestor/launch/training.h>

namespace nestor::launch {
namespace {

/// This process: a runtime of its own, its signals, its terminal.
class EmbeddedHost final : public TrainingHost {
 public:
  StopSource& stops() override { return interrupts_; }
  std::unique_ptr<actors::Job> make_job(const actors::JobSpec& spec) override {
    return actors::make_job(runtime_, spec);
  }
  void say(const std::string& line) override {
    std::lock_guard lock(mutex_);  // a signal's thread may speak too
    if (progress_) {
      progress_->note(line);
    } else {
      fmt::print(stderr, "{}\n", line);
    }
  }
  void begin(std::int64_t total, std::int64_t done) override {
    std::lock_guard lock(mutex_);
    progress_.emplace("step", total, done);
  }
  void update(std::int64_t done, const std::string& detail, const actors::StepReport&) override {
    std::lock_guard lock(mutex_);
    progress_->update(done, detail);
  }
  void finish() override {
    std::lock_guard lock(mutex_);
    if (!progress_) return;
    progress_->finish();
    progress_.reset();
  }

 private:
  Interrupts interrupts_;
  actors::Runtime runtime_;
  std::mutex mutex_;
  std::optional<Progress> progress_;
};

}  // namespace

int train(TrainConfig config, const ModelBuilder& build, RunFolder::Open how) {
  EmbeddedHost host;
  return train(std::move(config), build, how, host);
}

}  // namespace nestor::launch
