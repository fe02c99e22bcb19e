#include <algorithm>
#include <exception>
#include <filesystem>
#include <random>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/actors/executor.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/controlled_host.h>
#include <nestor/launch/cluster/head.h>
#include <nestor/launch/cluster/trainer.h>
#include <nestor/launch/cluster/worker.h>
#include <nestor/launch/config.h>
#include <nestor/launch/exit.h>
#include <nestor/launch/files.h>
#include <nestor/launch/training.h>

namespace nestor::launch {
namespace {

using actors::Error;
using actors::Executor;
using actors::Future;
using actors::Handle;

/// The lanes of a cluster: an executor in each worker process, opened for this job and connected to each other.
class ClusterLanes final : public actors::LaneSource {
 public:
  ClusterLanes(actors::remote::Node& node, const Opening& opening) : incarnation_(opening.incarnation) {
    std::vector<Handle<Worker>> workers;
    std::vector<Future<std::string>> opened;
    for (std::int32_t lane = 0; lane < opening.lanes; ++lane) {
      workers.push_back(node.attach<Worker>(HeadActor::lane_node(lane), "worker"));
      opened.push_back(workers.back().call(&Worker::open, opening));
    }
    std::map<std::int32_t, std::string> addresses;
    std::exception_ptr first;
    for (std::size_t lane = 0; lane < opened.size(); ++lane) {
      try {
        addresses[static_cast<std::int32_t>(lane)] = opened[lane].get();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
    std::vector<Future<void>> connected;
    for (const Handle<Worker>& worker : workers) connected.push_back(worker.call(&Worker::connect, addresses));
    for (Future<void>& future : connected) future.get();
    for (std::int32_t lane = 0; lane < opening.lanes; ++lane)
      executors_.push_back(
          node.find<Executor>(HeadActor::lane_node(lane), Worker::executor_name(lane, opening.incarnation)));
    transports_ = workers.front().call(&Worker::transports).get();
  }

  std::vector<Handle<Executor>> lanes(std::int32_t count) override {
    if (count > static_cast<std::int32_t>(executors_.size()))
      throw Error("job", fmt::format("asks for {} lanes, the cluster has {}", count, executors_.size()),
                  "fewer stages or other lanes for its pools");
    return {executors_.begin(), executors_.begin() + count};
  }
  /// Channels are new for every opening, yet a message of an older job may still be on its way to a host.
  std::uint64_t first_generation() const override { return incarnation_ << 32; }
  const std::string& transports() const { return transports_; }

 private:
  const std::uint64_t incarnation_;
  std::vector<Handle<Executor>> executors_;
  std::string transports_;
};

/// Proof that all lanes see one disk where the run folder is to be: the head writes a file that every lane reads, and
/// reads one from each. Beside the run folder, which is made only once all else is well.
class DiskProbe {
 public:
  explicit DiskProbe(const std::filesystem::path& run) {
    auto folder = run.parent_path();
    while (!std::filesystem::exists(folder) && folder.has_relative_path()) folder = folder.parent_path();
    std::random_device random;
    text_ = fmt::format("{:08x}{:08x}", random(), random());
    file_ = folder / (".nestor-probe-" + text_);
    write_aside(file_, text_);
  }
  ~DiskProbe() {
    std::error_code error;
    std::filesystem::remove(file_, error);
    for (std::int32_t lane = 0; lane < lanes_; ++lane)
      std::filesystem::remove(Worker::probe_answer(file_.string(), lane), error);
  }
  DiskProbe(const DiskProbe&) = delete;
  DiskProbe& operator=(const DiskProbe&) = delete;

  void ask(Opening& opening) {
    opening.probe = file_.string();
    opening.probe_text = text_;
    lanes_ = opening.lanes;
  }
  /// Throws Error naming a lane that wrote elsewhere.
  void check() const {
    for (std::int32_t lane = 0; lane < lanes_; ++lane) {
      const std::string answer = Worker::probe_answer(file_.string(), lane);
      if (!std::filesystem::exists(answer) || read_text(answer, 1 << 10) != text_)
        throw Error(HeadActor::lane_node(lane), "writes to another disk than the head at " + answer,
                    "run.dir must be on a disk that all hosts share");
    }
  }

 private:
  std::filesystem::path file_;
  std::string text_;
  std::int32_t lanes_ = 0;
};

class ClusterHost final : public ControlledHost {
 public:
  ClusterHost(const Trainer::Place& place, JobControl& control, actors::Runtime& runtime, const TrainRequest& request,
              const TrainConfig& config)
      : ControlledHost(control, config.run.dir.string()),
        place_(place),
        runtime_(runtime),
        request_(request),
        config_(config) {}

  std::unique_ptr<actors::Job> make_job(const actors::JobSpec& spec) override {
    if (spec.schedule.policy == "serial")
      throw Error("job", "policy serial runs in one process alone", "train without --cluster");
    faults_known_ = place_.head.call(&HeadActor::fault_count).get();  // before: one that comes now is new
    auto whole = place_.head.call(&HeadActor::whole);
    if (!whole.wait_for(place_.settings.mend_limit)) throw Error("job", "the cluster's lanes are not all alive");
    whole.get();
    Opening opening;
    opening.incarnation = place_.head.call(&HeadActor::next_incarnation).get();
    opening.config = request_.config;
    opening.source = request_.source;
    opening.lanes = place_.lanes;
    const auto vocabulary = config_.run.dir / "vocabulary.json";
    if (request_.how == static_cast<std::uint8_t>(RunFolder::Open::resume) && std::filesystem::exists(vocabulary))
      opening.vocabulary = vocabulary.string();
    DiskProbe disk(config_.run.dir);
    disk.ask(opening);
    auto lanes = std::make_shared<ClusterLanes>(*place_.node, opening);
    disk.check();
    say(fmt::format("{} lanes; tensors travel by {}", place_.lanes, lanes->transports()));
    const std::uint64_t generation = opening.incarnation;
    control().show([&](JobRow& row) {
      row.generation = generation;
      row.policy = spec.schedule.policy;
    });
    return actors::make_pipeline_job(runtime_, spec, std::move(lanes));
  }

  /// Mends what a dead process broke; anything else would fail again.
  bool recover(const Error& error, std::int64_t last_step) override {
    const auto limit = place_.settings.silence + 2 * place_.settings.reap;
    auto faults = place_.head.call(&HeadActor::faults_after, faults_known_);
    if (faults.wait_for(limit)) {
      unexplained_ = 0;
      for (const Fault& fault : faults.get())
        say(fmt::format("after step {}: {} on {} (pid {}): {}", last_step, fault.actor, fault.host, fault.pid,
                        fault.cause));
    } else if (++unexplained_ > kUnexplained) {
      return false;
    }
    say(fmt::format("the step was aborted ({}); waiting for the lanes", error.what()));
    control().show([](JobRow& row) { row.state = "recovering"; });
    auto whole = place_.head.call(&HeadActor::whole);
    if (whole.wait_for(place_.settings.mend_limit)) {
      try {
        whole.get();
        return true;
      } catch (const Error& dead) {
        say(dead.what());
        return false;
      }
    }
    say("not all lanes came back");
    return false;
  }

 private:
  const Trainer::Place& place_;
  actors::Runtime& runtime_;
  const TrainRequest& request_;
  const TrainConfig& config_;
  /// Failures in a row without a fault that explains them: a race of ends and new beginnings, or a model that fails.
  static constexpr int kUnexplained = 2;
  std::size_t faults_known_ = 0;
  int unexplained_ = 0;
};

}  // namespace

Trainer::Trainer(Place place, std::shared_ptr<JobControl> control, TrainRequest request)
    : place_(std::move(place)), control_(std::move(control)), request_(std::move(request)) {}

void Trainer::run() {
  int code = 1;
  std::string error;
  try {
    control_->show([](JobRow& row) { row.state = "starting"; });
    const TrainConfig config = read_config(request_.config, request_.source, {});
    ClusterHost host(place_, *control_, runtime(), request_, config);
    code = launch::train(config, place_.build, static_cast<RunFolder::Open>(request_.how), host);
  } catch (...) {
    std::tie(code, error) = exit_of(std::current_exception());
  }
  control_->end(code, error);
  place_.head.call(&HeadActor::job_ended);
}

}  // namespace nestor::launch
