#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nestor/actors/codec.h>

namespace nestor::launch {

/// What a cluster tells of itself: plain values, as `list` and `status` print them.

struct ActorRow {
  std::string name, kind;
  std::string state;  ///< PENDING, ALIVE, DRAINING, RESTARTING, LEFT, DEAD
  std::string host;
  std::int64_t pid = 0;
  std::int32_t lane = -1;
  std::uint64_t generation = 0;
  std::int32_t restarts = 0;
  std::string death_cause;  ///< of the last death; stays after a restart
  template <class Visit>
  void fields(Visit&& visit) {
    visit(name, kind, state, host, pid, lane, generation, restarts, death_cause);
  }
};

struct HostRow {
  std::string name, host, state;
  std::int64_t pid = 0;  ///< of its agent
  std::vector<std::int32_t> lanes;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(name, host, state, pid, lanes);
  }
};

struct PoolRow {
  std::string name, state;
  std::vector<std::int32_t> lanes;  ///< of its members
  std::uint64_t generation = 0;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(name, state, lanes, generation);
  }
};

struct Fault {
  std::int64_t step = 0;  ///< the last whole one before it
  std::string actor, host, cause;
  std::int64_t pid = 0;
  std::int64_t unix_ms = 0;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(step, actor, host, cause, pid, unix_ms);
  }
};

struct JobRow {
  std::string state;  ///< none, starting, running, paused, recovering, stopping, stopped, done, failed
  std::string dir, policy, cause;
  std::int64_t step = 0, steps = 0;
  std::uint64_t generation = 0;
  double loss = 0, samples_per_second = 0;
  std::map<std::string, double> losses;
  std::map<std::string, std::vector<std::int32_t>> pools;  ///< lanes of their members
  template <class Visit>
  void fields(Visit&& visit) {
    visit(state, dir, policy, cause, step, steps, generation, loss, samples_per_second, losses, pools);
  }
};

struct ClusterRow {
  std::string name, endpoint, version;
  std::int64_t pid = 0;
  std::int32_t lanes = 0, alive = 0;
  std::uint64_t refused = 0;  ///< connections to the control port
  JobRow job;
  std::vector<Fault> faults;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(name, endpoint, version, pid, lanes, alive, refused, job, faults);
  }
};

/// A training that a client asks for.
struct TrainRequest {
  std::string config;    ///< nestor.train/1 text with all overrides in it, paths absolute
  std::string source;    ///< the file's name, for errors
  std::uint8_t how = 0;  ///< RunFolder::Open
  bool paused = false;   ///< it waits for a driver before its first step
  template <class Visit>
  void fields(Visit&& visit) {
    visit(config, source, how, paused);
  }
};

/// Lines that a job has said since the client asked last.
struct JobOutput {
  std::vector<std::string> lines;
  std::uint64_t next = 0;
  bool ended = false;
  std::int32_t exit_code = 0;
  std::string error;  ///< what it failed with
  JobRow job;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(lines, next, ended, exit_code, error, job);
  }
};

}  // namespace nestor::launch
