#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include <nestor/scheduler/document.h>

namespace nestor::scheduler {
namespace {

std::string shorten(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 40)) shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return "'" + shown + (text.size() > 40 ? "..." : "") + "'";
}

}  // namespace

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, node] : entries) {
    if (name == key) return &node;
  }
  return nullptr;
}

Field::Field(const Field& parent, const Node& node, std::string step)
    : node_(&node), source_(parent.source_), path_(parent.path_) {
  if (!path_.empty() && step[0] != '[') path_ += '.';
  path_ += step;
}

void Field::fail(const std::string& what, const std::string& hint) const {
  fail_at(path_, what, hint);
}

void Field::fail_at(const std::string& path, const std::string& what, const std::string& hint) const {
  const std::string source(source_);
  if (node_->line > 0) {
    throw Error(source + ":" + std::to_string(node_->line), (path.empty() ? "" : path + ": ") + what, hint);
  }
  throw Error(path.empty() ? source : source + ":" + path, what, hint);
}

Field Field::at(std::string_view key) const {
  const Node* node = node_->find(key);
  if (!node) fail("has no '" + std::string(key) + "'");
  return Field(*this, *node, std::string(key));
}

Field Field::at(std::size_t index) const {
  std::string step = "[";
  append_number(step, static_cast<std::int64_t>(index));
  step += ']';
  return Field(*this, node_->items[index], std::move(step));
}

void Field::expect_map() const {
  if (node_->kind != Node::Kind::map) fail("is no map of keys to values");
}

void Field::expect_list() const {
  if (node_->kind != Node::Kind::list) fail("is no list");
}

void Field::expect_keys(std::initializer_list<std::string_view> known) const {
  expect_map();
  for (const auto& [key, node] : node_->entries) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string(name);
    Field(*this, node, shorten(key)).fail("is no key here", "known are " + names);
  }
}

double Field::number() const {
  if (node_->kind != Node::Kind::scalar || node_->quoted) fail("is no number");
  double value = 0;
  const char* end = node_->text.data() + node_->text.size();
  const auto [stop, error] = std::from_chars(node_->text.data(), end, value);
  if (error == std::errc::result_out_of_range) fail(shorten(node_->text) + " is out of range");
  if (error != std::errc{} || stop != end) fail(shorten(node_->text) + " is no number");
  if (!std::isfinite(value)) fail(shorten(node_->text) + " is not finite");
  return value;
}

std::int64_t Field::integer() const {
  if (node_->kind != Node::Kind::scalar || node_->quoted) fail("is no whole number");
  std::int64_t value = 0;
  const char* end = node_->text.data() + node_->text.size();
  const auto [stop, error] = std::from_chars(node_->text.data(), end, value);
  if (error == std::errc::result_out_of_range) fail(shorten(node_->text) + " is out of range");
  if (error != std::errc{} || stop != end) fail(shorten(node_->text) + " is no whole number");
  return value;
}

std::int32_t Field::small_integer() const {
  const std::int64_t value = integer();
  if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
    fail(shorten(node_->text) + " is out of range");
  }
  return static_cast<std::int32_t>(value);
}

bool Field::boolean() const {
  if (node_->kind != Node::Kind::scalar || node_->quoted || (node_->text != "true" && node_->text != "false")) {
    fail("is neither true nor false");
  }
  return node_->text == "true";
}

const std::string& Field::text() const {
  if (node_->kind != Node::Kind::scalar) fail("is no text");
  return node_->text;
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_number(std::string& out, double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  const std::string_view digits(buffer, result.ptr - buffer);
  out += digits;
  if (digits.find_first_not_of("-0123456789") == std::string_view::npos) out += ".0";
}

void append_number(std::string& out, std::int64_t value) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

}  // namespace nestor::scheduler
