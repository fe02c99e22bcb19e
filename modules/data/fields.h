#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include <yaml-cpp/yaml.h>

namespace nestor::modules {

/// Strict reading of a YAML mapping: every key is asked for once, and `finish` refuses those that nobody asked for.
/// All throw Error "WHERE.KEY: WHAT (HINT)".
class Fields {
 public:
  /// `where`: the mapping's place, e.g. "icons.yaml:data".
  Fields(const YAML::Node& node, std::string where);

  bool has(std::string_view key);
  /// The value as it is; undefined where it is missing.
  YAML::Node node(std::string_view key);
  std::string text(std::string_view key);  ///< required
  std::string text(std::string_view key, std::string fallback);
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t least,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max());
  double number(std::string_view key, double fallback, double least, double most);
  bool flag(std::string_view key, bool fallback);
  /// Index of the value among `names`.
  std::size_t choice(std::string_view key, std::string_view fallback, std::initializer_list<std::string_view> names);
  void finish() const;

  std::string place(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, const std::string& what, const std::string& hint) const;

 private:
  YAML::Node scalar(std::string_view key, const char* wanted);

  YAML::Node node_;
  std::string where_;
  std::set<std::string, std::less<>> asked_;
};

/// A whole or fractional YAML number, finite; throws Error at `place`.
std::int64_t parse_integer(const YAML::Node& node, const std::string& place);
double parse_number(const YAML::Node& node, const std::string& place);

}  // namespace nestor::modules
