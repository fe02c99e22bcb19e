#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include <nestor/modules/config_section.h>
#include <nestor/modules/suggest.h>

namespace nestor::modules {

namespace {

/// What a message may quote of the user's text: one line, not too long.
std::string quoted(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return "\"" + text + "\"";
}

template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

}  // namespace

ConfigSection::ConfigSection(const YAML::Node& node, std::string source, std::string field)
    : node_(node.IsDefined() && !node.IsNull() ? node : YAML::Node(YAML::NodeType::Map)),
      source_(std::move(source)),
      field_(std::move(field)) {
  const std::string where = source_ + (field_.empty() ? "" : ":" + field_);
  if (!node_.IsMap()) throw Error(where, "is not a mapping", "write \"key: value\" lines below it");
  std::vector<std::string> seen;
  for (const auto& entry : node_) {
    if (!entry.first.IsScalar()) throw Error(where, "has a key that is not a plain word", "");
    const auto& key = entry.first.Scalar();
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      throw Error(where, "has the key " + quoted(key) + " twice", "keep one of them");
    }
    seen.push_back(key);
  }
}

void ConfigSection::fail(const std::string& key, const std::string& what, const std::string& hint) const {
  const std::string field = field_ + (field_.empty() || key.empty() ? "" : ".") + key;
  throw Error(source_ + (field.empty() ? "" : ":" + field), what, hint);
}

YAML::Node ConfigSection::find(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  const YAML::Node& node = node_;  // operator[] of a constant node inserts nothing
  return node[key];
}

std::string ConfigSection::scalar(const YAML::Node& node, const std::string& key, const std::string& expected) const {
  if (!node.IsScalar() || node.Scalar().empty()) fail(key, "is not " + expected, "");
  return node.Scalar();
}

bool ConfigSection::has(const std::string& key) {
  auto node = find(key);
  return node.IsDefined() && !node.IsNull();
}

std::int64_t ConfigSection::integer(const std::string& key, std::int64_t fallback, std::int64_t least,
                                    std::int64_t most) {
  auto node = find(key);
  if (!node.IsDefined()) return fallback;
  const auto text = scalar(node, key, "a whole number");
  std::int64_t value = 0;
  if (!parse(text, value)) fail(key, quoted(text) + " is not a whole number", "");
  if (value < least || value > most) fail(key, fmt::format("is {}, outside {} to {}", value, least, most), "");
  return value;
}

double ConfigSection::number(const std::string& key, double fallback, double least, double most) {
  auto node = find(key);
  if (!node.IsDefined()) return fallback;
  const auto text = scalar(node, key, "a number");
  double value = 0;
  if (!parse(text, value) || !std::isfinite(value)) fail(key, quoted(text) + " is not a finite number", "");
  if (value < least || value > most) fail(key, fmt::format("is {}, outside {} to {}", value, least, most), "");
  return value;
}

bool ConfigSection::flag(const std::string& key, bool fallback) {
  auto node = find(key);
  if (!node.IsDefined()) return fallback;
  const auto text = scalar(node, key, "true or false");
  if (text != "true" && text != "false") fail(key, quoted(text) + " is neither true nor false", "");
  return text == "true";
}

std::string ConfigSection::text(const std::string& key, const std::string& fallback) {
  auto node = find(key);
  return node.IsDefined() ? scalar(node, key, "a text") : fallback;
}

std::string ConfigSection::choice(const std::string& key, const std::vector<std::string>& choices) {
  const auto value = text(key, choices.front());
  if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
    const auto near = nearest(value, choices);
    fail(key, "has no choice " + quoted(value),
         near.empty() ? fmt::format("one of {}", fmt::join(choices, ", ")) : fmt::format("did you mean \"{}\"?", near));
  }
  return value;
}

std::vector<std::string> ConfigSection::texts(const std::string& key, const std::vector<std::string>& fallback) {
  auto node = find(key);
  if (!node.IsDefined()) return fallback;
  if (node.IsScalar()) return {scalar(node, key, "a text")};
  if (!node.IsSequence()) fail(key, "is not a list", "write [one, two]");
  std::vector<std::string> values;
  for (const auto& item : node) values.push_back(scalar(item, key, "a list of texts"));
  return values;
}

ConfigSection ConfigSection::section(const std::string& key) {
  return {find(key), source_, field_.empty() ? key : field_ + "." + key};
}

std::vector<std::string> ConfigSection::keys() const {
  std::vector<std::string> keys;
  for (const auto& entry : node_) keys.push_back(entry.first.Scalar());
  return keys;
}

void ConfigSection::finish() const {
  for (const auto& key : keys()) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      fail("", "unknown key " + quoted(key), did_you_mean(key, known_));
    }
  }
}

}  // namespace nestor::modules
