#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nestor/actors/executor.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/job.h>
#include <nestor/actors/remote/node.h>
#include <nestor/launch/cluster/host_files.h>
#include <nestor/launch/cluster/worker.h>

namespace nestor::launch {

/// The lanes of a job on a cluster: an executor in each worker process, opened for this job and connected to each
/// other, and the disks that these see. Where a host has not the head's disk, the job's checkpoints are copied: a
/// lane's part to the head, the whole to one such host, and what is to be read to all. In the job's thread.
class ClusterLanes final : public actors::LaneSource {
 public:
  /// Lane i of the job is worker `opening.workers[i]`; `run` is the job's folder. Throws Error.
  ClusterLanes(actors::remote::Node& node, Opening opening, std::filesystem::path run);

  std::vector<actors::Handle<actors::Executor>> lanes(std::int32_t count) override;
  /// Channels are new for every opening, yet a message of an older job may still be on its way to a host.
  std::uint64_t first_generation() const override { return incarnation_ << 32; }
  void collect(std::int32_t lane, const std::filesystem::path& folder, const modules::CheckpointFile& file) override;
  void mirror(const std::filesystem::path& folder) override;
  void provide(const std::filesystem::path& folder) override;

  const std::string& transports() const { return transports_; }
  /// The workers whose hosts have a disk of their own.
  std::vector<std::int32_t> apart() const;

 private:
  struct LaneHost {
    std::int32_t worker = 0;
    actors::Handle<HostFiles> files;
    bool apart = false;
  };

  /// Which lanes see this process's disk at the run folder: a file that this process writes, and one from each of them.
  void prove_disks();
  /// Copies of a checkpoint's files that are not there already, and of its index.
  void give(const LaneHost& host, const std::filesystem::path& folder) const;

  const std::uint64_t incarnation_;
  const std::filesystem::path run_;
  std::vector<LaneHost> hosts_;  ///< by lane
  std::vector<actors::Handle<actors::Executor>> executors_;
  std::string transports_;
};

}  // namespace nestor::launch
