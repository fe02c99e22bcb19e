#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <nestor/actors/error.h>
#include <nestor/actors/job.h>
#include <nestor/launch/config.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/run.h>
#include <nestor/launch/run_folder.h>

namespace nestor::launch {

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
  /// May change the job: policy, pools.
  virtual void between_steps(actors::Job&) {}
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
