#include <nlohmann/json.hpp>

#include <nestor/launch/cluster/introduction.h>
#include <nestor/launch/error.h>

namespace nestor::launch {

std::string Introduction::write() const {
  return nlohmann::json{{"cluster", cluster},
                        {"host", host},
                        {"host_number", host_number},
                        {"endpoint", endpoint},
                        {"head_key", head_key},
                        {"public", keys.public_key},
                        {"private", keys.secret_key},
                        {"secret", secret},
                        {"own_lanes", own_lanes},
                        {"lanes", lanes},
                        {"logs", logs},
                        {"listen", listen},
                        {"peers", peers},
                        {"lane", lane},
                        {"generation", generation}}
             .dump() +
         "\n";
}

Introduction Introduction::read(const std::string& text) {
  Introduction read;
  try {
    const auto json = nlohmann::json::parse(text);
    json.at("cluster").get_to(read.cluster);
    json.at("host").get_to(read.host);
    json.at("host_number").get_to(read.host_number);
    json.at("endpoint").get_to(read.endpoint);
    json.at("head_key").get_to(read.head_key);
    json.at("public").get_to(read.keys.public_key);
    json.at("private").get_to(read.keys.secret_key);
    json.at("secret").get_to(read.secret);
    json.at("own_lanes").get_to(read.own_lanes);
    json.at("lanes").get_to(read.lanes);
    json.at("logs").get_to(read.logs);
    json.at("listen").get_to(read.listen);
    json.at("peers").get_to(read.peers);
    json.at("lane").get_to(read.lane);
    json.at("generation").get_to(read.generation);
  } catch (const nlohmann::json::exception&) {
    throw InputError("node", "has no introduction on its standard input", "nestor up starts it");
  }
  return read;
}

}  // namespace nestor::launch
