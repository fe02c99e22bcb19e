#include <algorithm>
#include <cctype>
#include <memory>
#include <sstream>
#include <unordered_set>

#include <nlohmann/json.hpp>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <nestor/scheduler/document.h>

namespace nestor::scheduler {
namespace {

constexpr std::size_t kDeepest = 32;

/// Builds a tree from the events of either parser, without recursion.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view source, const RowVisitor& on_row) : source_(source), on_row_(on_row) {}

  void scalar(std::string text, bool quoted, std::int32_t line) {
    if (wants_key()) return key(std::move(text), line);
    Node node;
    node.kind = Node::Kind::scalar;
    node.quoted = quoted;
    node.line = line;
    node.text = std::move(text);
    attach(std::move(node));
  }
  void null(std::int32_t line) {
    if (wants_key()) fail(line, "a key is empty");
    Node node;
    node.line = line;
    attach(std::move(node));
  }
  void open(Node::Kind kind, std::int32_t line) {
    if (wants_key()) fail(line, "a key is no text");
    if (stack_.size() >= kDeepest) fail(line, "is nested deeper than 32 levels");
    auto& frame = stack_.emplace_back();
    frame.node.kind = kind;
    frame.node.line = line;
  }
  void key(std::string text, std::int32_t line) {
    Frame& frame = stack_.back();
    if (!is_new(frame, text)) fail(line, "'" + text.substr(0, 40) + "' stands twice");
    frame.key = std::move(text);
    frame.has_key = true;
  }
  void close() {
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    attach(std::move(node));
  }
  Node take() { return std::move(root_); }

  [[noreturn]] void fail(std::int32_t line, const std::string& what, const std::string& hint = "") const {
    throw Error(line > 0 ? std::string(source_) + ":" + std::to_string(line) : std::string(source_), what, hint);
  }

 private:
  struct Frame {
    Node node;
    std::string key;
    bool has_key = false;
    std::size_t count = 0;                 ///< elements so far, those that were visited and dropped included
    std::unordered_set<std::string> keys;  ///< of large maps
  };

  /// Nearly all maps are small, and then looking through them is faster than a set.
  static bool is_new(Frame& frame, const std::string& key) {
    constexpr std::size_t kSmall = 16;
    const auto& entries = frame.node.entries;
    if (entries.size() < kSmall) return !frame.node.find(key);
    if (frame.keys.empty()) {
      for (const auto& entry : entries) frame.keys.insert(entry.first);
    }
    return frame.keys.insert(key).second;
  }

  bool wants_key() const {
    return !stack_.empty() && stack_.back().node.kind == Node::Kind::map && !stack_.back().has_key;
  }
  /// Is the open list "lanes[...].ops"?
  bool in_rows() const {
    return on_row_ && stack_.size() == 4 && stack_[0].key == "lanes" && stack_[2].key == "ops" &&
           stack_[1].node.kind == Node::Kind::list && stack_[3].node.kind == Node::Kind::list;
  }
  void attach(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = stack_.back();
    if (parent.node.kind == Node::Kind::map) {
      parent.node.entries.emplace_back(std::move(parent.key), std::move(node));
      parent.has_key = false;
    } else if (in_rows()) {
      on_row_(node, stack_[1].count, parent.count);
    } else {
      parent.node.items.push_back(std::move(node));
    }
    ++parent.count;
  }

  std::string_view source_;
  const RowVisitor& on_row_;
  std::vector<Frame> stack_;
  Node root_;
};

class YamlEvents : public YAML::EventHandler {
 public:
  explicit YamlEvents(TreeBuilder& tree) : tree_(tree) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) tree_.fail(line(mark), "a second document begins", "a file holds one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { tree_.null(line(mark)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    tree_.fail(line(mark), "aliases are not read", "write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    check_tag(mark, tag);
    const bool quoted = tag == "!";
    if (!quoted && (value.empty() || value == "~" || value == "null")) return tree_.null(line(mark));
    tree_.scalar(value, quoted, line(mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    tree_.open(Node::Kind::list, line(mark));
  }
  void OnSequenceEnd() override { tree_.close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    tree_.open(Node::Kind::map, line(mark));
  }
  void OnMapEnd() override { tree_.close(); }

 private:
  static std::int32_t line(const YAML::Mark& mark) { return mark.line + 1; }
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") tree_.fail(line(mark), "tags are not read", "write the plain value");
  }

  TreeBuilder& tree_;
  int documents_ = 0;
};

class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonEvents(TreeBuilder& tree, std::string_view text) : tree_(tree), text_(text) {}

  bool null() override { return tree_.null(0), true; }
  bool boolean(bool value) override { return tree_.scalar(value ? "true" : "false", false, 0), true; }
  bool number_integer(std::int64_t value) override { return tree_.scalar(std::to_string(value), false, 0), true; }
  bool number_unsigned(std::uint64_t value) override { return tree_.scalar(std::to_string(value), false, 0), true; }
  bool number_float(double, const std::string& spelled) override { return tree_.scalar(spelled, false, 0), true; }
  bool string(std::string& value) override { return tree_.scalar(std::move(value), true, 0), true; }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return tree_.open(Node::Kind::map, 0), true; }
  bool end_object() override { return tree_.close(), true; }
  bool start_array(std::size_t) override { return tree_.open(Node::Kind::list, 0), true; }
  bool end_array() override { return tree_.close(), true; }
  bool key(std::string& value) override { return tree_.key(std::move(value), 0), true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(position, text_.size()));
    tree_.fail(static_cast<std::int32_t>(std::count(text_.begin(), end, '\n') + 1), "is no JSON",
               "from byte " + std::to_string(position) + " on");
  }

 private:
  TreeBuilder& tree_;
  std::string_view text_;
};

void check_is_text(std::string_view text, std::string_view source) {
  std::int32_t line = 1;
  for (const char c : text) {
    line += c == '\n';
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f) {
      throw Error(std::string(source) + ":" + std::to_string(line), "holds bytes that are no text", "");
    }
  }
}

Node parse_yaml(std::string_view text, std::string_view source) {
  const RowVisitor no_rows;
  TreeBuilder tree(source, no_rows);
  YamlEvents events(tree);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(events)) throw Error(std::string(source), "is empty", "");
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& error) {
    tree.fail(error.mark.is_null() ? 0 : error.mark.line + 1, "is no YAML: " + error.msg);
  }
  return tree.take();
}

}  // namespace

Node parse_json(std::string_view text, std::string_view source, const RowVisitor& on_row) {
  check_is_text(text, source);
  TreeBuilder tree(source, on_row);
  JsonEvents events(tree, text);
  nlohmann::json::sax_parse(text, &events);
  return tree.take();
}

Node parse_document(std::string_view text, std::string_view source) {
  check_is_text(text, source);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  const bool maybe_json = start != std::string_view::npos && text[start] == '{';
  return maybe_json && nlohmann::json::accept(text) ? parse_json(text, source) : parse_yaml(text, source);
}

}  // namespace nestor::scheduler
