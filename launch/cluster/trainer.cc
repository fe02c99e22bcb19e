#include <chrono>
#include <exception>
#include <filesystem>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/cluster_lanes.h>
#include <nestor/launch/cluster/controlled_host.h>
#include <nestor/launch/cluster/fit.h>
#include <nestor/launch/cluster/head.h>
#include <nestor/launch/cluster/trainer.h>
#include <nestor/launch/config.h>
#include <nestor/launch/exit.h>
#include <nestor/launch/training.h>

namespace nestor::launch {
namespace {

using actors::Error;

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
    if (workers_.empty()) {                                           // the first time: on what was asked for
      const std::int32_t needs = lanes_of(spec.schedule);
      if (needs > place_.lanes)
        throw Error("job", fmt::format("asks for {} lanes, the cluster has {}", needs, place_.lanes),
                    "fewer stages or other lanes for its pools");
      std::string missing;
      if (!find_workers(needs, &missing)) throw Error("job", missing);
    }
    Opening opening;
    opening.workers = std::exchange(workers_, {});
    opening.incarnation = place_.head.call(&HeadActor::next_incarnation).get();
    opening.config = request_.config;
    opening.source = request_.source;
    const auto vocabulary = config_.run.dir / "vocabulary.json";
    if (request_.how == static_cast<std::uint8_t>(RunFolder::Open::resume) && std::filesystem::exists(vocabulary))
      opening.vocabulary = vocabulary.string();
    const auto lanes = std::make_shared<ClusterLanes>(*place_.node, opening, config_.run.dir);
    say(fmt::format("{} lanes; tensors travel by {}", opening.workers.size(), lanes->transports()));
    for (const std::int32_t worker : lanes->apart())
      say(fmt::format("{} has a disk of its own: checkpoints are copied to it and from it",
                      HeadActor::lane_node(worker)));
    actors::JobSpec fitting = spec;
    fitting.schedule = fit(spec.schedule, static_cast<std::int32_t>(opening.workers.size()));
    control().show([&](JobRow& row) {
      row.generation = opening.incarnation;
      row.policy = spec.schedule.policy;
    });
    return actors::make_pipeline_job(runtime_, std::move(fitting), lanes);
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
    std::string missing;
    if (find_workers(config_.schedule.stages, &missing)) return true;
    say(missing);
    return false;
  }

 private:
  /// Waits for all workers; where one does not come back, those that are alive do, if they are enough for `lanes`.
  /// Else false, and what is missing.
  bool find_workers(std::int32_t lanes, std::string* missing) {
    auto settled = place_.head.call(&HeadActor::settled);
    const auto end = std::chrono::steady_clock::now() + place_.settings.mend_limit;
    while (!settled.wait_for(kLook) && std::chrono::steady_clock::now() < end && control().count() < 2) {
    }
    const auto rows = settled.ready() ? settled.get() : place_.head.call(&HeadActor::workers).get();
    std::vector<std::string> alive, gone;
    workers_.clear();
    for (const ActorRow& row : rows) {
      if (row.state == "ALIVE") {
        workers_.push_back(row.lane);
        alive.push_back(row.name);
      } else {
        gone.push_back(fmt::format("{} does not come up: {}", row.name, row.death_cause));
      }
    }
    if (static_cast<std::int32_t>(alive.size()) < lanes) {
      *missing = fmt::format("{}; {} of the {} lanes that the job needs {} alive", fmt::join(gone, "; "), alive.size(),
                             lanes, alive.size() == 1 ? "is" : "are");
      workers_.clear();
      return false;
    }
    if (!gone.empty())
      say(fmt::format("{}; going on without: the job's lanes 0 to {} are now {}", fmt::join(gone, "; "),
                      alive.size() - 1, fmt::join(alive, ", ")));
    return true;
  }

  const Trainer::Place& place_;
  actors::Runtime& runtime_;
  const TrainRequest& request_;
  const TrainConfig& config_;
  /// Failures in a row without a fault that explains them: a race of ends and new beginnings, or a model that fails.
  static constexpr int kUnexplained = 2;
  static constexpr std::chrono::milliseconds kLook{100};  ///< between looks whether somebody has lost patience
  std::size_t faults_known_ = 0;
  std::vector<std::int32_t> workers_;  ///< found to be alive, for the next job
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
