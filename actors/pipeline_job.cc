#include <algorithm>

#include <nestor/actors/error.h>
#include <nestor/actors/executor.h>
#include <nestor/actors/get_all.h>
#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>
#include <nestor/actors/scheduler_actor.h>
#include <nestor/comm/channel.h>
#include <nestor/modules/train/checkpoint.h>
#include <nestor/scheduler/planner.h>

namespace nestor::actors {
namespace {

using namespace std::chrono_literals;

constexpr auto kStopLimit = 30s;

/// The lanes of an embedded job: an executor each, on one in-process fabric. Used by one thread at a time.
class EmbeddedLanes final : public LaneSource {
 public:
  EmbeddedLanes(Runtime& runtime, std::shared_ptr<const JobSpec> spec, std::string prefix)
      : runtime_(runtime), spec_(std::move(spec)), prefix_(std::move(prefix)) {}
  ~EmbeddedLanes() override { stop_beyond(0); }

  std::vector<Handle<Executor>> lanes(std::int32_t count) override {
    if (executors_.size() < static_cast<std::size_t>(count)) {  // an end of a stopped lane refuses everything: take new
      fabric_ = comm::make_inproc_fabric(count);
      for (std::size_t lane = 0; lane < executors_.size(); ++lane)
        executors_[lane].call(&Executor::connect, channel(lane)).get();
    }
    while (executors_.size() < static_cast<std::size_t>(count)) {
      const std::size_t lane = executors_.size();
      executors_.push_back(runtime_.spawn<Executor>(prefix_ + "lane" + std::to_string(lane),
                                                    static_cast<std::int32_t>(lane), spec_, channel(lane)));
    }
    stop_beyond(static_cast<std::size_t>(count));
    return executors_;
  }

 private:
  /// Keeps its fabric alive.
  std::shared_ptr<comm::Channel> channel(std::size_t lane) const {
    return {fabric_, &fabric_->channel(static_cast<std::int32_t>(lane))};
  }
  void stop_beyond(std::size_t count) {
    std::vector<Future<void>> ending;
    while (executors_.size() > count) {
      ending.push_back(executors_.back().stop());
      executors_.pop_back();
    }
    wait_all(ending, kStopLimit);
  }

  Runtime& runtime_;
  const std::shared_ptr<const JobSpec> spec_;
  const std::string prefix_;
  std::shared_ptr<comm::Fabric> fabric_;
  std::vector<Handle<Executor>> executors_;
};

class PipelineJob final : public Job {
 public:
  PipelineJob(Runtime& runtime, JobSpec spec, std::shared_ptr<LaneSource> lanes)
      : spec_(std::make_shared<const JobSpec>(std::move(spec))) {
    check(spec_->schedule);
    schedule_ = spec_->schedule;
    spawn(runtime, lanes);
    try {
      scheduler_.call(&SchedulerActor::start).get();
    } catch (...) {
      stop();
      throw;
    }
  }
  ~PipelineJob() override { stop(); }

  StepReport step(bool trace) override { return scheduler_.call(&SchedulerActor::step, trace).get(); }
  std::map<std::string, double> evaluate(std::int64_t samples) override {
    return scheduler_.call(&SchedulerActor::evaluate, samples).get();
  }
  std::int64_t steps_done() const override { return scheduler_.call(&SchedulerActor::steps_done).get(); }
  std::shared_ptr<const scheduler::Plan> plan() const override { return scheduler_.call(&SchedulerActor::plan).get(); }

  void set_policy(const std::string& policy) override {
    ScheduleOptions next = schedule_;
    next.policy = policy;
    reconfigure(std::move(next));
  }
  void resize(const std::string& pool, const std::vector<std::int32_t>& lanes) override {
    ScheduleOptions next = schedule_;
    next.pools[pool] = lanes;
    reconfigure(std::move(next));
  }
  const ScheduleOptions& schedule() const override { return schedule_; }

  void save(const std::filesystem::path& folder) override {
    const auto lanes = scheduler_.call(&SchedulerActor::lanes).get();
    const modules::CheckpointWriter writer(folder);
    modules::CheckpointInfo info;
    info.step = steps_done();
    info.seed = spec_->seed;
    const auto files = get_all(call_each(lanes, &Executor::save, folder));
    for (std::size_t lane = 0; lane < files.size(); ++lane) {
      if (files[lane].name.empty()) continue;
      lanes_->collect(static_cast<std::int32_t>(lane), folder, files[lane]);
      info.files.push_back(files[lane]);
    }
    writer.finish(info);
    lanes_->mirror(folder);
  }
  void load(const std::filesystem::path& folder) override {
    const auto lanes = scheduler_.call(&SchedulerActor::lanes).get();
    const auto info = modules::read_checkpoint_info(folder);
    lanes_->provide(folder);
    get_all(call_each(lanes, &Executor::read, folder));
    get_all(call_each(lanes, &Executor::adopt, info.step));
    scheduler_.call(&SchedulerActor::set_steps_done, info.step).get();
  }
  std::map<std::string, torch::Tensor> parameters() override { return gather(&Executor::parameters); }
  std::map<std::string, torch::Tensor> gradients() override { return gather(&Executor::gradients); }
  void request_abort(const std::string& cause) override { scheduler_.call(&SchedulerActor::abort, cause); }

 private:
  static void check(const ScheduleOptions& schedule) {
    auto at_least_one = [](std::int32_t value, const char* field) {
      if (value < 1)
        throw scheduler::Error(std::string("schedule.") + field, "is " + std::to_string(value), "at least 1");
    };
    at_least_one(schedule.stages, "stages");
    at_least_one(schedule.chunks, "chunks");
    at_least_one(schedule.microbatches, "microbatches");
    at_least_one(schedule.microbatch_size, "microbatch_size");
    const auto known = scheduler::policy_names();
    if (std::find(known.begin(), known.end(), schedule.policy) != known.end()) return;
    std::string names;
    for (std::string_view name : known) names.append(names.empty() ? "" : ", ").append(name);
    throw Error("job", "there is no policy '" + schedule.policy + "' for it", "it has " + names);
  }

  void stop() {
    scheduler_.call(&SchedulerActor::abort, "the job was ended");
    scheduler_.stop().wait_for(kStopLimit);
  }

  void reconfigure(ScheduleOptions next) {
    check(next);
    scheduler_.call(&SchedulerActor::reconfigure, next).get();
    schedule_ = std::move(next);
  }

  /// Several jobs may share a runtime: the first is plain "scheduler" and "lane0", the next "job2/scheduler", ...
  void spawn(Runtime& runtime, const std::shared_ptr<LaneSource>& elsewhere) {
    for (int number = 1;; ++number) {
      const std::string prefix = number == 1 ? "" : "job" + std::to_string(number) + "/";
      lanes_ = elsewhere ? elsewhere : std::make_shared<EmbeddedLanes>(runtime, spec_, prefix);
      try {
        scheduler_ = runtime.spawn<SchedulerActor>(prefix + "scheduler", spec_, lanes_);
        return;
      } catch (const CallFailed&) {
        throw;
      } catch (const Error&) {
        if (number == kMaxJobs) throw;
      }
    }
  }

  template <class R, class... P, class... Args>
  static std::vector<Future<R>> call_each(const std::vector<Handle<Executor>>& lanes,
                                          Future<R> (Executor::*method)(P...), const Args&... args) {
    std::vector<Future<R>> futures;
    for (const auto& lane : lanes) futures.push_back(lane.call(method, args...));
    return futures;
  }

  std::map<std::string, torch::Tensor> gather(Future<modules::NamedTensors> (Executor::*method)()) {
    std::map<std::string, torch::Tensor> all;
    for (auto& tensors : get_all(call_each(scheduler_.call(&SchedulerActor::lanes).get(), method)))
      all.insert(tensors.begin(), tensors.end());
    return all;
  }

  static constexpr int kMaxJobs = 1000;

  const std::shared_ptr<const JobSpec> spec_;
  ScheduleOptions schedule_;
  std::shared_ptr<LaneSource> lanes_;  ///< the scheduler actor's
  Handle<SchedulerActor> scheduler_;
};

}  // namespace

std::unique_ptr<Job> make_pipeline_job(Runtime& runtime, JobSpec spec) {
  return std::make_unique<PipelineJob>(runtime, std::move(spec), nullptr);
}

std::unique_ptr<Job> make_pipeline_job(Runtime& runtime, JobSpec spec, std::shared_ptr<LaneSource> lanes) {
  return std::make_unique<PipelineJob>(runtime, std::move(spec), std::move(lanes));
}

std::unique_ptr<Job> make_job(Runtime& runtime, JobSpec spec) {
  if (spec.schedule.policy == "serial") return make_serial_job(std::move(spec));
  return make_pipeline_job(runtime, std::move(spec));
}

}  // namespace nestor::actors
