#include <nestor/launch/cluster/rows_json.h>

namespace nestor::launch {

using Json = nlohmann::ordered_json;

Json to_json(const ActorRow& row) {
  Json json;
  json["name"] = row.name;
  json["kind"] = row.kind;
  json["state"] = row.state;
  json["host"] = row.host;
  json["pid"] = row.pid;
  json["lane"] = row.lane < 0 ? Json(nullptr) : Json(row.lane);
  json["generation"] = row.generation;
  json["restarts"] = row.restarts;
  json["death_cause"] = row.death_cause.empty() ? Json(nullptr) : Json(row.death_cause);
  return json;
}

Json to_json(const HostRow& row) {
  Json json;
  json["name"] = row.name;
  json["host"] = row.host;
  json["state"] = row.state;
  json["pid"] = row.pid;
  json["lanes"] = row.lanes;
  return json;
}

Json to_json(const PoolRow& row) {
  Json json;
  json["name"] = row.name;
  json["state"] = row.state;
  json["size"] = row.lanes.size();
  json["lanes"] = row.lanes;
  json["generation"] = row.generation;
  return json;
}

Json to_json(const ClusterRow& row) {
  Json json;
  json["name"] = row.name;
  json["endpoint"] = row.endpoint;
  json["version"] = row.version;
  json["pid"] = row.pid;
  json["lanes"] = row.lanes;
  json["alive"] = row.alive;
  json["refused_connections"] = row.refused;
  json["state"] = row.job.state;
  json["step"] = row.job.step;
  json["steps"] = row.job.steps;
  json["generation"] = row.job.generation;
  json["policy"] = row.job.policy;
  json["run"] = row.job.dir;
  json["loss"] = row.job.loss;
  json["losses"] = row.job.losses;
  json["samples_per_second"] = row.job.samples_per_second;
  json["pools"] = row.job.pools;
  json["cause"] = row.job.cause.empty() ? Json(nullptr) : Json(row.job.cause);
  Json faults = Json::array();
  for (const Fault& fault : row.faults)
    faults.push_back({{"step", fault.step},
                      {"actor", fault.actor},
                      {"host", fault.host},
                      {"pid", fault.pid},
                      {"cause", fault.cause},
                      {"unix_ms", fault.unix_ms}});
  json["faults"] = std::move(faults);
  return json;
}

}  // namespace nestor::launch
