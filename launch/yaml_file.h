#pragma once

#include <string>

#include <yaml-cpp/yaml.h>

namespace nestor::launch {

/// Parses one YAML document that is a mapping. Throws InputError with path:line.
YAML::Node parse_yaml(const std::string& text, const std::string& source);

/// Sets `assignment` ("a.b=value", the value read as YAML) in `root`, making mappings on the way.
void set_yaml(YAML::Node root, const std::string& assignment);

}  // namespace nestor::launch
