#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nestor/modules/batch.h>
#include <nestor/modules/model.h>
#include <nestor/modules/train/checkpoint.h>
#include <nestor/modules/train/optimizer.h>
#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/timeline.h>

namespace nestor::actors {

/// The `schedule` section of a training config.
struct ScheduleOptions {
  std::string policy = "nested";     ///< serial | coupled | decoupled | nested | filled
  std::int32_t stages = 1;           ///< P
  std::int32_t chunks = 1;           ///< V
  std::int32_t microbatches = 4;     ///< M
  std::int32_t microbatch_size = 4;  ///< samples
  /// Lanes of each pool's members; a pool not named has one member on each of lanes 0..P-1.
  std::map<std::string, std::vector<std::int32_t>> pools;
};

/// What a job trains. The dataset must be thread-safe (Dataset says so).
struct JobSpec {
  modules::Model model;
  std::shared_ptr<const modules::Dataset> dataset;
  ScheduleOptions schedule;
  modules::OptimizerOptions optimizer;
  std::uint64_t seed = 1;
  torch::Dtype dtype = torch::kFloat32;
  std::chrono::milliseconds step_deadline = std::chrono::minutes(10);  ///< a step that takes longer is aborted
};

struct StepReport {
  std::int64_t step = 0;                 ///< 1 for the first
  double loss = 0;                       ///< weighted total of the means
  std::map<std::string, double> losses;  ///< means, by loss name; a count of 0 is a loss of 0
  double grad_norm = 0;
  bool skipped = false;  ///< the update was skipped everywhere (a non-finite norm)
  std::int64_t tokens = 0, samples = 0;
  double seconds = 0;
  double bubble = 0;                                     ///< idle share of lanes x makespan, measured
  std::map<std::string, std::vector<double>> in_flight;  ///< measured peaks, as nestor.plan/1
  std::optional<scheduler::Timeline> timeline;           ///< where tracing was asked for
};

/// A job: the model's parameters and its step counter, on some lanes. Its methods are called by one thread at a time
/// and block; `request_abort` may be called from any thread or a signal handler's helper.
class Job {
 public:
  virtual ~Job() = default;
  /// Runs the next step. Throws Error when it failed; parameters are then those before the step.
  virtual StepReport step(bool trace = false) = 0;
  /// Mean losses over the held-out split, at most `samples` of it.
  virtual std::map<std::string, double> evaluate(std::int64_t samples) = 0;

  virtual std::int64_t steps_done() const = 0;
  virtual std::shared_ptr<const scheduler::Plan> plan() const = 0;  ///< of the last step; null for serial or before one
  /// From the next step on. Throws Error naming those that exist.
  virtual void set_policy(const std::string& policy) = 0;
  /// The pool's members from the next step on live on these lanes.
  virtual void resize(const std::string& pool, const std::vector<std::int32_t>& lanes) = 0;
  virtual const ScheduleOptions& schedule() const = 0;

  /// Writes parameters, optimizer state and step under layer-canonical names, aside, then renames the folder.
  virtual void save(const std::filesystem::path& folder) = 0;
  /// Reads such a folder, whatever P, V or pool sizes wrote it. Nothing is changed where it throws.
  virtual void load(const std::filesystem::path& folder) = 0;
  /// Copies of all parameters by canonical name (drivers, tests, sampling).
  virtual std::map<std::string, torch::Tensor> parameters() = 0;
  /// Copies of the last step's gradients by canonical name, before clipping. For tests and inspection.
  virtual std::map<std::string, torch::Tensor> gradients() = 0;
  virtual void request_abort(const std::string& cause) = 0;
};

/// The plain single-process reference: no executors, no plan (policy `serial`).
std::unique_ptr<Job> make_serial_job(JobSpec spec);
class Runtime;
class Executor;
template <class T>
class Handle;

/// Where a job's executors come from.
class LaneSource {
 public:
  virtual ~LaneSource() = default;
  /// Makes executors of lanes 0..count-1 exist, connected to each other, and ends those beyond. Called between steps,
  /// in the scheduler actor's thread. Throws Error where there are not so many lanes.
  virtual std::vector<Handle<Executor>> lanes(std::int32_t count) = 0;
  /// The first generation that the job may use: above all that its lanes' channels have seen.
  virtual std::uint64_t first_generation() const { return 1; }

  // Lanes may be on hosts with disks of their own. In the job's thread; throw Error.

  /// Lane `lane` has written `file` into FOLDER.partial on its host: makes it be there on this one.
  virtual void collect(std::int32_t /*lane*/, const std::filesystem::path& /*folder*/,
                       const modules::CheckpointFile& /*file*/) {}
  /// The checkpoint `folder` has become whole on this host: keeps a copy on another disk, if lanes have such.
  virtual void mirror(const std::filesystem::path& /*folder*/) {}
  /// Makes the checkpoint `folder` of this host be there on all lanes' hosts, before they read it.
  virtual void provide(const std::filesystem::path& /*folder*/) {}
};

/// A job on executors of `runtime`, a lane each. Embedded. The runtime must outlive it.
std::unique_ptr<Job> make_pipeline_job(Runtime& runtime, JobSpec spec);
/// A job whose executors are elsewhere; its scheduler actor is in `runtime`.
std::unique_ptr<Job> make_pipeline_job(Runtime& runtime, JobSpec spec, std::shared_ptr<LaneSource> lanes);
/// One or the other by spec.schedule.policy.
std::unique_ptr<Job> make_job(Runtime& runtime, JobSpec spec);

}  // namespace nestor::actors
