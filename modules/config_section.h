#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include <nestor/modules/error.h>

namespace nestor::modules {

/// A mapping of a training config, read strictly: each getter marks its key as known, `finish` refuses the others.
/// Errors are Error with WHERE = "SOURCE:FIELD", such as "icons.yaml:model.llm.layers". Getters return the fallback
/// where the key is missing. Bounds are inclusive.
class ConfigSection {
 public:
  /// `node` may be undefined or null: an empty mapping. `field` is its path, "model.llm" for example.
  ConfigSection(const YAML::Node& node, std::string source, std::string field);

  bool has(const std::string& key);
  std::int64_t integer(const std::string& key, std::int64_t fallback, std::int64_t least, std::int64_t most);
  double number(const std::string& key, double fallback, double least, double most);
  bool flag(const std::string& key, bool fallback);
  /// A scalar as text; an empty one is refused.
  std::string text(const std::string& key, const std::string& fallback);
  /// One of `choices`; the first is the fallback.
  std::string choice(const std::string& key, const std::vector<std::string>& choices);
  /// A list of scalars, or one scalar for a list of one.
  std::vector<std::string> texts(const std::string& key, const std::vector<std::string>& fallback);
  /// A mapping below; empty where the key is missing.
  ConfigSection section(const std::string& key);
  /// Keys of this mapping as the file has them, none marked as known.
  std::vector<std::string> keys() const;
  /// Throws on the first key that no getter has asked for.
  void finish() const;
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& hint) const;

 private:
  YAML::Node find(const std::string& key);
  std::string scalar(const YAML::Node& node, const std::string& key, const std::string& expected) const;

  YAML::Node node_;
  std::string source_, field_;
  std::vector<std::string> known_;
};

}  // namespace nestor::modules
