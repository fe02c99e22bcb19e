#pragma once

#include <string>

#include <nestor/launch/run.h>

namespace nestor::launch {

/// The processes of a cluster, from their start to their end. Each returns its exit code.

/// The head of the cluster of that name, whose folder holds its file and credentials.
int run_head(const std::string& cluster, const ModelBuilder& build, const ActorTypes& types);
/// `introduction`: introduction.h.
int run_agent(const std::string& introduction, const ModelBuilder& build, const ActorTypes& types);
int run_worker(const std::string& introduction, const ModelBuilder& build);
/// A host's process for users' actors.
int run_actors(const std::string& introduction, const ActorTypes& types);

/// This program's own file.
std::string program_file();

}  // namespace nestor::launch
