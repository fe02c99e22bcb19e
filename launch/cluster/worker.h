#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nestor/actors/executor.h>
#include <nestor/actors/handle.h>
#include <nestor/comm/ucx.h>
#include <nestor/launch/run.h>

namespace nestor::launch {

/// What a lane needs to take part in a job.
struct Opening {
  std::uint64_t incarnation = 0;      ///< counts jobs, and a job's recoveries
  std::string config, source;         ///< nestor.train/1 text
  std::string vocabulary;             ///< file to go on with; empty: made from the captions
  std::vector<std::int32_t> workers;  ///< of the job's lanes: lane i is worker workers[i]
  template <class Visit>
  void fields(Visit&& visit) {
    visit(incarnation, config, source, vocabulary, workers);
  }
};

/// The actor of a worker process: makes the lane's executor for a job, and connects it to the others.
class Worker final : public actors::Actor {
 public:
  Worker(std::int32_t number, comm::UcxOptions transport, ModelBuilder build);
  static void describe(actors::MethodTable<Worker>& table);

  /// Ends the executor there is and spawns the next, `executor_name(worker, incarnation)`. Returns the address of its
  /// end of the channels. Throws what is wrong with the config or its data on this host.
  std::string open(Opening opening);
  /// Addresses of all lanes' ends, by lane of the job.
  void connect(std::map<std::int32_t, std::string> addresses);
  /// That worker is gone: sends to its lane end at once.
  void drop_peer(std::int32_t worker, std::string cause);
  void close();
  std::string transports() const;

  static std::string executor_name(std::int32_t worker, std::uint64_t incarnation);

 private:
  void end_executor(const std::string& why);

  const std::int32_t number_;
  const comm::UcxOptions transport_;
  const ModelBuilder build_;
  std::string config_read_;  ///< what `spec_` was made from
  std::shared_ptr<const actors::JobSpec> spec_;
  std::vector<std::int32_t> workers_;  ///< by lane of the job
  std::int32_t lane_ = -1;             ///< of the job
  std::shared_ptr<comm::UcxChannel> channel_;
  actors::Handle<actors::Executor> executor_;
};

}  // namespace nestor::launch
