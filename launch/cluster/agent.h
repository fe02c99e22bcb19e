#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <nestor/actors/actor.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/method_table.h>

namespace nestor::launch {

/// The actor of a host's agent process: starts, watches and ends a worker process per lane.
class Agent final : public actors::Actor {
 public:
  /// A running worker process. Destroying it kills and reaps it.
  class Child {
   public:
    virtual ~Child() = default;
    virtual std::int64_t pid() const = 0;
    virtual void signal(int number) = 0;
  };
  /// Starts the worker of a lane; `ended` is called once, from another thread, with what became of it.
  using Start = std::function<std::unique_ptr<Child>(std::int32_t lane, std::uint64_t generation,
                                                     std::function<void(std::string cause)> ended)>;
  /// Where ends are reported.
  using Report = std::function<void(std::int32_t lane, std::uint64_t generation, std::int64_t pid, std::string cause)>;

  Agent(Start start, Report report);
  static void describe(actors::MethodTable<Agent>& table);

  /// Returns its pid. One that still runs in this lane is killed first.
  std::int64_t start(std::int32_t lane, std::uint64_t generation);
  /// SIGKILL, where that generation still runs.
  void kill(std::int32_t lane, std::uint64_t generation);
  void kill_all();

 private:
  struct Running {
    std::uint64_t generation = 0;
    std::unique_ptr<Child> child;
  };
  void ended(std::int32_t lane, std::uint64_t generation, std::int64_t pid, const std::string& cause);

  const Start start_;
  const Report report_;
  std::map<std::int32_t, Running> running_;
};

}  // namespace nestor::launch
