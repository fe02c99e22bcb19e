#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nestor/actors/actor.h>
#include <nestor/actors/codec.h>
#include <nestor/actors/future.h>
#include <nestor/actors/job.h>
#include <nestor/actors/lane.h>
#include <nestor/actors/lane_thread.h>
#include <nestor/actors/messages.h>
#include <nestor/actors/method_table.h>
#include <nestor/modules/train/checkpoint.h>

namespace nestor::actors {

template <>
struct Fields<modules::CheckpointFile> {
  template <class Visit>
  static void visit(Visit&& visit, modules::CheckpointFile& file) {
    visit(file.name, file.bytes, file.crc32, file.tensors);
  }
};

/// The actor of a lane. It never computes: it hands work to the lane's own thread, in the order it comes, and stays
/// free to answer `abort` and `status` at once.
class Executor final : public Actor {
 public:
  struct Status {
    std::int32_t lane = 0;
    std::int64_t version = 0;
    std::string doing;  ///< "backward llm stage 3 microbatch 5"; empty: idle
    template <class Visit>
    void fields(Visit&& visit) {
      visit(lane, version, doing);
    }
  };

  /// All but `connect`: a lane may be in another process.
  static void describe(MethodTable<Executor>& table);

  /// `channel` is this lane's end of the fabric.
  Executor(std::int32_t lane, std::shared_ptr<const JobSpec> spec, std::shared_ptr<comm::Channel> channel);
  ~Executor() override;

  /// Two halves of a change of placement, so that no lane drops what another has not got yet.
  Future<void> stage(Placement placement);
  Future<void> settle(bool commit);
  /// A row that cannot be run fails the run that asks for it.
  void install(LanePlan plan);
  Future<LaneReport> run(RunStep message);
  Future<void> resolve(Resolve message);
  /// Ends a run of that generation or older.
  void abort(std::uint64_t generation, std::string cause);
  Status status() const;
  /// Between steps: this lane's end of another fabric.
  Future<void> connect(std::shared_ptr<comm::Channel> channel);

  /// Writes this lane's file of a checkpoint that a CheckpointWriter has begun: the parameters it owns, their moments.
  Future<modules::CheckpointFile> save(std::filesystem::path folder);
  /// Two halves of loading: reads and checks everything, then (after all lanes have) copies it in.
  Future<void> read(std::filesystem::path folder);
  Future<void> adopt(std::int64_t version);
  /// Copies of the parameters that this lane owns, or of their last gradients (trainable ones; absent is zeros).
  Future<modules::NamedTensors> parameters();
  Future<modules::NamedTensors> gradients();

  void on_stop() override;

 private:
  const std::int32_t number_;
  std::vector<std::shared_ptr<comm::Channel>> channels_;  ///< the last two: an abort may still find the older one
  Lane lane_;
  LaneThread thread_;  ///< after lane_: joined before it goes
};

}  // namespace nestor::actors
