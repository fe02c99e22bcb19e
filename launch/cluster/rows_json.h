#pragma once

#include <nlohmann/json.hpp>

#include <nestor/launch/cluster/rows.h>

namespace nestor::launch {

/// Rows as `--format json` prints them (docs/cluster.md).
nlohmann::ordered_json to_json(const ActorRow& row);
nlohmann::ordered_json to_json(const HostRow& row);
nlohmann::ordered_json to_json(const PoolRow& row);
nlohmann::ordered_json to_json(const ClusterRow& row);

}  // namespace nestor::launch
