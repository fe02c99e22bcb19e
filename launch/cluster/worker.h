#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include <nestor/actors/executor.h>
#include <nestor/actors/handle.h>
#include <nestor/comm/ucx.h>
#include <nestor/launch/run.h>

namespace nestor::launch {

/// What a lane needs to take part in a job.
struct Opening {
  std::uint64_t incarnation = 0;  ///< counts jobs, and a job's recoveries
  std::string config, source;     ///< nestor.train/1 text
  std::string vocabulary;         ///< file to go on with; empty: made from the captions
  std::int32_t lanes = 0;
  /// A file beside the run folder that the head has written, and what it holds: a lane that does not read the same
  /// there sees another disk, where its share of a checkpoint would be lost. It answers with a file of its own.
  std::string probe, probe_text;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(incarnation, config, source, vocabulary, lanes, probe, probe_text);
  }
};

/// The actor of a worker process: makes the lane's executor for a job, and connects it to the others.
class Worker final : public actors::Actor {
 public:
  Worker(std::int32_t lane, comm::UcxOptions transport, ModelBuilder build);
  static void describe(actors::MethodTable<Worker>& table);

  /// Ends the executor there is and spawns the next, `executor_name(lane, incarnation)`. Returns the address of its end
  /// of the channels. Throws what is wrong with the config or its data on this host.
  std::string open(Opening opening);
  /// Addresses of all lanes' ends.
  void connect(std::map<std::int32_t, std::string> addresses);
  /// Lane `lane` is gone: sends to it end at once.
  void drop_peer(std::int32_t lane, std::string cause);
  void close();
  std::string transports() const;

  static std::string probe_answer(const std::string& probe, std::int32_t lane) {
    return probe + ".lane" + std::to_string(lane);
  }
  static std::string executor_name(std::int32_t lane, std::uint64_t incarnation);

 private:
  void end_executor(const std::string& why);

  const std::int32_t lane_;
  const comm::UcxOptions transport_;
  const ModelBuilder build_;
  std::string config_read_;  ///< what `spec_` was made from
  std::shared_ptr<const actors::JobSpec> spec_;
  std::shared_ptr<comm::UcxChannel> channel_;
  actors::Handle<actors::Executor> executor_;
};

}  // namespace nestor::launch
