#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nestor/actors/error.h>
#include <nestor/actors/job.h>
#include <nestor/launch/config.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/metrics.h>
#include <nestor/launch/run.h>
#include <nestor/launch/run_folder.h>

namespace nestor::launch {

/// A training as it stands between two steps: what whoever steers it may see and do then. The training's thread only.
class StandingTraining {
 public:
  virtual ~StandingTraining() = default;
  virtual actors::Job& job() = 0;
  virtual const modules::Model& model() const = 0;
  virtual const TrainConfig& config() const = 0;
  /// The run's steps after `step`, those before a resume too.
  virtual std::vector<StepMetrics> metrics_after(std::int64_t step) const = 0;
  /// Changes a key of `run` from the next step on: "run.steps=200". Throws InputError where it is none that may change.
  virtual void set(const std::string& assignment) = 0;
  /// Saves, unless this step is saved already. Returns the checkpoint's folder. Throws WorkError.
  virtual std::filesystem::path checkpoint() = 0;
  /// Takes the next step, and measures it. Throws Error where that failed; the training then fails or mends itself as
  /// after any step, as soon as its host lets go of it: `failed()`.
  virtual const scheduler::Timeline& traced_step() = 0;
  virtual bool failed() const = 0;
};

/// What a training runs on, and whom it tells of its progress: this process and its terminal, or a cluster and its
/// clients. Called by the training's thread.
class TrainingHost {
 public:
  virtual ~TrainingHost() = default;
  virtual StopSource& stops() = 0;
  /// A job with weights as drawn; called again after `recover`, when the one before is gone.
  virtual std::unique_ptr<actors::Job> make_job(const actors::JobSpec& spec) = 0;
  /// A line of text.
  virtual void say(const std::string& line) = 0;
  /// Steps begin: `done` of `total`, then after each step; then they have ended.
  virtual void begin(std::int64_t total, std::int64_t done) = 0;
  virtual void update(std::int64_t done, const std::string& detail, const actors::StepReport& report) = 0;
  virtual void finish() = 0;
  /// Before every step, and once more after the last one. May change the training, and may keep it waiting.
  virtual void between_steps(StandingTraining&) {}
  /// A step failed. True: the lanes are whole again (it waited for that), make the job anew and go on from the last
  /// checkpoint. False: it cannot be mended.
  virtual bool recover(const actors::Error&, std::int64_t /*last_step*/) { return false; }
};

/// Trains as the config says and keeps the run folder (docs/formats.md). A request to stop finishes the step, saves and
/// returns; a second one aborts the step. Returns the exit code: 0 when all steps are done, 128 and the signal where a
/// request ended it. Throws InputError, modules::Error and scheduler::Error for bad input, before anything is written;
/// actors::Error and WorkError for failed work, after saving what can be saved.
int train(TrainConfig config, const ModelBuilder& build, RunFolder::Open how, TrainingHost& host);
/// In this process, with a progress bar.
int train(TrainConfig config, const ModelBuilder& build, RunFolder::Open how);

}  // namespace nestor::launch
