#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <nestor/actors/future.h>
#include <nestor/actors/handle.h>
#include <nestor/launch/cluster/agent.h>

namespace nestor::launch {

/// A process that an agent runs, as the head knows it.
struct WatchedProcess {
  std::string state;  ///< PENDING, ALIVE, RESTARTING, LEFT, DEAD; empty: never started
  std::int64_t pid = 0;
  std::uint64_t generation = 0;  ///< counts its starts
  std::int32_t restarts = 0;
  std::string death_cause;  ///< of the last death
  std::string silence;      ///< why its link was lost, or that it never joined, while its end is awaited

  bool lives(std::uint64_t start) const { return generation == start && state == "ALIVE"; }
  void join(std::int64_t number) {
    state = "ALIVE";
    pid = number;
    silence.clear();
  }
  /// What its agent says of its end, and why the head had it killed, where it had.
  std::string end_in_words(const std::string& cause) const {
    const bool killed = silence.starts_with("silent") || silence.starts_with("it did not");
    return killed ? silence + ", and was killed" : cause;
  }
};

/// How an actor of the head, the owner, watches one of its processes. Made anew for each use, in the owner's thread.
template <class Owner>
struct ProcessWatch {
  actors::Handle<Owner> owner;
  std::int32_t lane;  ///< the agent's number of it
  std::function<WatchedProcess&(Owner&)> process;
  std::function<actors::Handle<Agent>(Owner&)> agent;  ///< of its host; empty where there is none
  std::function<void(Owner&, const std::string& cause)> lose;

  /// Has the agent start it. One that has not joined at the limit is killed.
  void start(Owner& me, std::chrono::milliseconds limit) const {
    WatchedProcess& starting = process(me);
    const std::uint64_t generation = ++starting.generation;
    starting.silence.clear();
    starting.pid = 0;
    auto started = std::make_shared<actors::Future<std::int64_t>>(agent(me).call(&Agent::start, lane, generation));
    started->on_ready([watch = *this, started, generation] {
      watch.owner.run([watch, started, generation](Owner& later) {
        WatchedProcess& now = watch.process(later);
        if (now.generation != generation) return;
        try {
          now.pid = started->get();
        } catch (const std::exception& error) {
          watch.lose(later, std::string("cannot be started: ") + error.what());
        }
      });
    });
    owner.run_after(limit, [watch = *this, generation](Owner& later) {
      WatchedProcess& now = watch.process(later);
      if (now.generation != generation || now.state == "ALIVE") return;
      now.silence = "it did not join in time";
      watch.kill(later, generation);
    });
  }

  /// Its link is gone. One that is silent may be stopped: it must not wake again, and is killed. One that is gone has
  /// an exit code, which the agent reports; nobody guesses. Where nothing is heard for `reap`, it is lost all the same.
  void disconnected(Owner& me, const std::string& cause, std::chrono::milliseconds reap) const {
    WatchedProcess& silent = process(me);
    const std::uint64_t generation = silent.generation;
    silent.silence = cause;
    if (cause.starts_with("silent")) kill(me, generation);
    owner.run_after(reap, [watch = *this, generation, cause](Owner& later) {
      if (!watch.process(later).lives(generation)) return;
      watch.kill(later, generation);
      watch.lose(later, cause);
    });
  }

  /// Has the agent kill it, where that generation still runs.
  void kill(Owner& me, std::uint64_t generation) const {
    if (const auto there = agent(me)) there.call(&Agent::kill, lane, generation);
  }
};

}  // namespace nestor::launch
