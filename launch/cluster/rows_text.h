#pragma once

#include <string>
#include <vector>

#include <nestor/launch/cluster/rows.h>

namespace nestor::launch {

/// The same rows for a person to read, as tables and lines.
std::string job_text(const JobRow& job);
std::string status_text(const ClusterRow& row);
std::string faults_text(const std::vector<Fault>& faults, std::size_t most);  ///< the last ones
std::string actors_text(const std::vector<ActorRow>& rows);
std::string nodes_text(const std::vector<HostRow>& rows);
std::string pools_text(const std::vector<PoolRow>& rows);
std::string lanes_text(const std::vector<std::int32_t>& lanes);

}  // namespace nestor::launch
