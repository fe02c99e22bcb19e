#pragma once
/// Inside scheduler/: what its readers and writers of files share.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nestor/scheduler/error.h>

namespace nestor::scheduler {

/// A YAML or JSON value. Scalars keep their spelling, so that numbers are read once, strictly, by the field's own type.
struct Node {
  // Out of line: a pair of Node must not be looked into before Node is complete.
  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  bool quoted = false;    ///< a scalar in quotes: never a number or a boolean
  std::int32_t line = 0;  ///< 1 is the first; 0: unknown (JSON)
  std::string text;
  std::vector<Node> items;
  std::vector<std::pair<std::string, Node>> entries;

  const Node* find(std::string_view key) const;
};

/// Called with rows of "lanes[lane].ops" as they come, so that a large plan never stands in memory as a tree.
using RowVisitor = std::function<void(const Node& row, std::size_t lane, std::size_t index)>;

/// Parses one document, YAML or JSON (a text that is JSON is read as JSON). Anything malformed is an Error at
/// `source`:line: duplicate keys, aliases, tags, several documents, nesting deeper than 32, bytes that are no text.
Node parse_document(std::string_view text, std::string_view source);
/// JSON only.
Node parse_json(std::string_view text, std::string_view source, const RowVisitor& on_row = {});

/// A value and the way to it, for typed reading with errors that name the place.
class Field {
 public:
  Field(const Node& node, std::string_view source, std::string path = "")
      : node_(&node), source_(source), path_(std::move(path)) {}

  const Node& node() const { return *node_; }
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const;

  /// The same for another field's fault, where this is the nearest that stands in the file.
  [[noreturn]] void fail_at(const std::string& path, const std::string& what, const std::string& hint = "") const;

  /// Members and elements.
  Field at(std::string_view key) const;  ///< fails where it is missing
  Field at(std::size_t index) const;
  bool has(std::string_view key) const { return node_->find(key) != nullptr; }
  std::size_t size() const { return node_->items.size(); }
  bool is_list() const { return node_->kind == Node::Kind::list; }
  /// A map with no other keys than these.
  void expect_keys(std::initializer_list<std::string_view> known) const;
  void expect_map() const;
  void expect_list() const;

  /// Scalars, strictly of their type; numbers are finite.
  double number() const;
  std::int64_t integer() const;
  std::int32_t small_integer() const;  ///< of 32 bits
  bool boolean() const;
  const std::string& text() const;

 private:
  Field(const Field& parent, const Node& node, std::string step);

  const Node* node_;
  std::string_view source_;
  std::string path_;
};

/// A JSON string with its quotes.
std::string json_text(std::string_view text);
/// The shortest decimal that reads back as the same double.
void append_number(std::string& out, double value);
void append_number(std::string& out, std::int64_t value);

}  // namespace nestor::scheduler
