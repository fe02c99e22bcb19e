#pragma once

#include <memory>
#include <string>

#include <nestor/launch/cluster/client.h>
#include <nestor/launch/config.h>
#include <nestor/launch/driver/target.h>
#include <nestor/launch/run_folder.h>

namespace nestor::launch {

/// The job of a running cluster. Leaving it, however, leaves the job as it is: running or paused.
class ClusterTarget final : public DriverTarget {
 public:
  /// Attaches to the cluster of that name; the only one that runs where it is empty. Throws as ClusterClient does.
  explicit ClusterTarget(const std::string& cluster);
  /// Starts a job there, paused before its first step. Throws WorkError where one trains already, InputError for what
  /// is wrong with the config.
  void start(TrainConfig config, const std::string& source, RunFolder::Open how, const Listener& listener);

  const std::string& name() const { return client_.name(); }

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
  JobRow wait(actors::Future<JobRow> done, const Listener& listener);

  ClusterClient client_;
  std::uint64_t next_ = 0;
};

}  // namespace nestor::launch
