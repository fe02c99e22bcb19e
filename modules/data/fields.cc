#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include <nestor/modules/data/fields.h>
#include <nestor/modules/error.h>

namespace nestor::modules {
namespace {

std::string shown(const YAML::Node& node) {
  return node.IsScalar() ? "\"" + node.Scalar() + "\""
         : node.IsNull() ? "nothing"
         : node.IsMap()  ? "a mapping"
                         : "a list";
}

}  // namespace

std::int64_t parse_integer(const YAML::Node& node, const std::string& place) {
  std::int64_t value = 0;
  if (node.IsScalar()) {
    const std::string& text = node.Scalar();
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed == std::errc() && end == text.data() + text.size()) return value;
  }
  throw Error(place, "is " + shown(node), "a whole number is needed");
}

double parse_number(const YAML::Node& node, const std::string& place) {
  double value = 0;
  if (node.IsScalar()) {
    const std::string& text = node.Scalar();
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  }
  throw Error(place, "is " + shown(node), "a finite number is needed");
}

Fields::Fields(const YAML::Node& node, std::string where) : node_(node), where_(std::move(where)) {
  if (!node_.IsDefined() || !node_.IsMap()) {
    throw Error(where_, node_.IsDefined() ? "is " + shown(node_) : "is missing", "a mapping of keys is needed");
  }
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    if (!entry.first.IsScalar()) throw Error(where_, "has a key that is no name", "keys are plain words");
    if (!seen.insert(entry.first.Scalar()).second) fail(entry.first.Scalar(), "is there twice", "keep one");
  }
}

std::string Fields::place(std::string_view key) const {
  return fmt::format("{}.{}", where_, key);
}

void Fields::fail(std::string_view key, const std::string& what, const std::string& hint) const {
  throw Error(place(key), what, hint);
}

YAML::Node Fields::node(std::string_view key) {
  asked_.emplace(key);
  const YAML::Node& fixed = node_;  // indexing a mutable node would add the key
  return fixed[std::string(key)];
}

bool Fields::has(std::string_view key) {
  return node(key).IsDefined();
}

YAML::Node Fields::scalar(std::string_view key, const char* wanted) {
  const auto value = node(key);
  if (value.IsDefined() && !value.IsScalar()) fail(key, "is " + shown(value), wanted);
  return value;
}

std::string Fields::text(std::string_view key) {
  const auto value = scalar(key, "a text is needed");
  if (!value.IsDefined() || value.Scalar().empty()) fail(key, "is missing", "a text is needed");
  return value.Scalar();
}

std::string Fields::text(std::string_view key, std::string fallback) {
  return has(key) ? text(key) : std::move(fallback);
}

std::int64_t Fields::integer(std::string_view key, std::int64_t fallback, std::int64_t least, std::int64_t most) {
  const auto value = node(key);
  if (!value.IsDefined()) return fallback;
  const std::int64_t parsed = parse_integer(value, place(key));
  if (parsed < least || parsed > most) {
    fail(key, fmt::format("is {}", parsed),
         most == std::numeric_limits<std::int64_t>::max() ? fmt::format("at least {}", least)
                                                          : fmt::format("{} to {}", least, most));
  }
  return parsed;
}

double Fields::number(std::string_view key, double fallback, double least, double most) {
  const auto value = node(key);
  if (!value.IsDefined()) return fallback;
  const double parsed = parse_number(value, place(key));
  if (parsed < least || parsed > most) fail(key, fmt::format("is {}", parsed), fmt::format("{} to {}", least, most));
  return parsed;
}

bool Fields::flag(std::string_view key, bool fallback) {
  const auto value = scalar(key, "true or false");
  if (!value.IsDefined()) return fallback;
  if (value.Scalar() != "true" && value.Scalar() != "false") fail(key, "is " + shown(value), "true or false");
  return value.Scalar() == "true";
}

std::size_t Fields::choice(std::string_view key, std::string_view fallback,
                           std::initializer_list<std::string_view> names) {
  const std::string chosen = text(key, std::string(fallback));
  std::size_t index = 0;
  for (const auto name : names) {
    if (name == chosen) return index;
    ++index;
  }
  fail(key, "is \"" + chosen + "\"", fmt::format("one of {}", fmt::join(names, ", ")));
}

void Fields::finish() const {
  for (const auto& entry : node_) {
    const std::string key = entry.first.Scalar();
    if (asked_.count(key) == 0) fail(key, "unknown key", fmt::format("known: {}", fmt::join(asked_, ", ")));
  }
}

}  // namespace nestor::modules
