#pragma once

#include <memory>
#include <thread>

#include <nestor/launch/cluster/job_control.h>
#include <nestor/launch/config.h>
#include <nestor/launch/driver/target.h>
#include <nestor/launch/run.h>
#include <nestor/launch/run_folder.h>

namespace nestor::launch {

/// A training in this process, in a thread of its own, paused before its first step.
class EmbeddedTarget final : public DriverTarget {
 public:
  /// Returns when it stands ready. Throws what the training throws at its start: InputError for a bad config.
  EmbeddedTarget(TrainConfig config, ModelBuilder build, RunFolder::Open how);
  /// Asks it to stop after its step, and waits: it saves and writes its report.
  ~EmbeddedTarget() override;
  /// The same, before. What it failed with, or empty; `news` then has what it said at its end.
  std::string finish();

  JobRow step(std::int64_t steps, const Listener& listener) override;
  JobRow run(const Listener& listener) override;
  JobRow pause(const Listener& listener) override;
  ClusterRow status() override;
  std::vector<ActorRow> actors() override;
  std::vector<HostRow> nodes() override;
  JobOutput news() override;
  std::vector<StepRow> history(std::int64_t after) override;
  bool stop() override;
  std::string call(const std::string& actor, const std::string& method, const std::string& arguments) override;

 protected:
  JobAnswer ask(const JobRequest& request) override;

 private:
  class Host;
  JobRow wait(actors::Future<JobRow> done, const Listener& listener);
  void must_live() const;

  std::shared_ptr<JobControl> control_;
  std::unique_ptr<Host> host_;
  std::uint64_t next_ = 0;
  std::thread thread_;
};

}  // namespace nestor::launch
