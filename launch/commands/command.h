#pragma once

#include <functional>
#include <memory>
#include <string>

#include <nestor/launch/run.h>

namespace CLI {
class App;
}

namespace nestor::launch {

/// What `nestor::run` gives to every command, and gets back from the one that was chosen.
struct Session {
  ModelBuilder build;           ///< the user's model, or empty
  std::function<int()> action;  ///< set by the chosen command's parsing; returns the exit code
  ActorTypes types{};           ///< the user's actors
};

/// Each adds one command with its flags and an example to `program`. Parsing sets `session.action`; nothing is read or
/// written before that runs.
void add_plan(CLI::App& program, Session& session);
void add_verify(CLI::App& program, Session& session);
void add_simulate(CLI::App& program, Session& session);
void add_sweep(CLI::App& program, Session& session);
void add_show(CLI::App& program, Session& session);
void add_import(CLI::App& program, Session& session);
void add_prepare(CLI::App& program, Session& session);
void add_train(CLI::App& program, Session& session);
void add_generate(CLI::App& program, Session& session);
void add_up(CLI::App& program, Session& session);               ///< down and node too
void add_cluster_queries(CLI::App& program, Session& session);  ///< status, list, resize
void add_logs(CLI::App& program, Session& session);
void add_driver(CLI::App& program, Session& session);

}  // namespace nestor::launch
