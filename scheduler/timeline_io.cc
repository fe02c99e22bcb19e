#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <nestor/scheduler/error.h>
#include <nestor/scheduler/timeline.h>

namespace nestor::scheduler {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "nestor.timeline/1";
constexpr OpKind kKinds[] = {OpKind::forward,   OpKind::backward, OpKind::backward_input, OpKind::backward_weight,
                             OpKind::recompute, OpKind::send,     OpKind::recv,           OpKind::reduce,
                             OpKind::update};

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string module_name(const Timeline& timeline, std::int32_t module) {
  const auto i = static_cast<std::size_t>(module);
  return module >= 0 && i < timeline.module_names.size() ? timeline.module_names[i] : fmt::format("module{}", module);
}

void append_end(std::string& out, const Timeline& timeline, std::string_view key, std::int32_t module,
                std::int32_t stage) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":{{\"module\":{}", key, json_text(module_name(timeline, module)));
  if (stage >= 0) fmt::format_to(std::back_inserter(out), ",\"stage\":{}", stage);
  out += '}';
}

/// Reads one document; every error names the field.
class Reader {
 public:
  Reader(const json& document, std::string_view source) : document_(document), source_(source) {}

  Timeline read() {
    if (!document_.is_object()) fail("", "is no JSON object", "a nestor.timeline/1 document");
    if (document_.value("format", json()) != json(kFormat)) fail("format", "is not \"nestor.timeline/1\"", "");
    Timeline timeline;
    for (const auto& [key, value] : document_.items())
      if (key != "format" && key != "step" && key != "source" && key != "lanes" && key != "modules" && key != "rows")
        fail(key, "is no key of nestor.timeline/1", "");
    if (document_.contains("step"))
      timeline.step = integer(document_, "step", "step", 0, std::numeric_limits<std::int64_t>::max());
    timeline.source = document_.contains("source") ? text(document_, "source", "source") : "measured";
    names("lanes", timeline.lane_names);
    names("modules", timeline.module_names);
    const auto rows = document_.find("rows");
    if (rows == document_.end() || !rows->is_array()) fail("rows", "is no list", "");
    timeline.rows.reserve(rows->size());
    for (std::size_t i = 0; i < rows->size(); ++i) timeline.rows.push_back(row((*rows)[i], i, timeline));
    for (const TimelineRow& row : timeline.rows)
      while (static_cast<std::size_t>(row.lane) >= timeline.lane_names.size())
        timeline.lane_names.push_back("lane" + std::to_string(timeline.lane_names.size()));
    return timeline;
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& what, const std::string& hint) const {
    throw Error(std::string(source_) + ":" + (field.empty() ? "1" : field), what, hint);
  }
  std::int64_t integer(const json& object, const char* key, const std::string& where, std::int64_t low,
                       std::int64_t high) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(where, "is missing", "");
    if (!found->is_number_integer() ||
        (found->is_number_unsigned() &&
         found->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())))
      fail(where, "is no integer", "");
    const auto value = found->get<std::int64_t>();
    if (value < low || value > high)
      fail(where, "is " + std::to_string(value), fmt::format("from {} to {}", low, high));
    return value;
  }
  std::string text(const json& object, const char* key, const std::string& where) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(where, "is missing", "");
    if (!found->is_string()) fail(where, "is no text", "");
    return found->get<std::string>();
  }
  void names(const char* key, std::vector<std::string>& out) const {
    if (!document_.contains(key)) return;
    const json& list = document_[key];
    if (!list.is_array()) fail(key, "is no list", "");
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].is_string()) fail(fmt::format("{}[{}]", key, i), "is no text", "");
      out.push_back(list[i].get<std::string>());
    }
  }
  /// Modules are known by name; one that the document's list lacks joins it.
  std::int16_t module(const std::string& name, const std::string& where, Timeline& timeline) const {
    auto& known = timeline.module_names;
    for (std::size_t i = 0; i < known.size(); ++i)
      if (known[i] == name) return static_cast<std::int16_t>(i);
    if (known.size() >= 32767) fail(where, "is one module too many", "");
    known.push_back(name);
    return static_cast<std::int16_t>(known.size() - 1);
  }
  void end(const json& object, const char* key, const std::string& where, Timeline& timeline, std::int16_t& to_module,
           std::int32_t& stage) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_object()) fail(where + "." + key, "is no end of a transfer", "");
    to_module = module(text(*found, "module", where + "." + key + ".module"), where, timeline);
    if (found->contains("stage"))
      stage = static_cast<std::int32_t>(integer(*found, "stage", where + "." + key + ".stage", 0, 1 << 30));
  }
  TimelineRow row(const json& value, std::size_t index, Timeline& timeline) const {
    const std::string where = fmt::format("rows[{}]", index);
    if (!value.is_object()) fail(where, "is no object", "");
    TimelineRow row;
    row.lane = static_cast<std::int32_t>(integer(value, "lane", where + ".lane", 0, (1 << 16) - 1));
    const std::string kind = text(value, "op", where + ".op");
    const auto* found =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](OpKind k) { return to_string(k) == kind; });
    if (found == std::end(kKinds)) fail(where + ".op", "'" + kind + "' is no operator", "");
    row.op.kind = *found;
    if (row.op.is_transfer()) {
      end(value, "from", where, timeline, row.op.module, row.op.stage);
      end(value, "to", where, timeline, row.op.to_module, row.op.to_stage);
      const std::string direction = text(value, "direction", where + ".direction");
      if (direction != "activation" && direction != "gradient")
        fail(where + ".direction", "'" + direction + "' is no direction", "activation or gradient");
      row.op.direction = direction == "gradient" ? Direction::gradient : Direction::activation;
      row.op.peer = static_cast<std::int32_t>(integer(value, "peer", where + ".peer", 0, (1 << 16) - 1));
    } else if (value.contains("module")) {
      row.op.module = module(text(value, "module", where + ".module"), where + ".module", timeline);
    } else if (row.op.kind != OpKind::update) {
      fail(where + ".module", "is missing", "");
    }
    if (value.contains("microbatch"))
      row.op.microbatch = static_cast<std::int32_t>(integer(value, "microbatch", where + ".microbatch", 0, 1 << 27));
    else if (row.op.is_compute() || row.op.is_transfer())
      fail(where + ".microbatch", "is missing", "");
    if (value.contains("stage") && !row.op.is_transfer())
      row.op.stage = static_cast<std::int32_t>(integer(value, "stage", where + ".stage", 0, 1 << 30));
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 4;
    row.start_ns = integer(value, "start_ns", where + ".start_ns", -kMost, kMost);
    row.end_ns = integer(value, "end_ns", where + ".end_ns", -kMost, kMost);
    if (row.end_ns < row.start_ns) fail(where + ".end_ns", "lies before start_ns", "");
    if (value.contains("wait_ns")) row.wait_ns = integer(value, "wait_ns", where + ".wait_ns", 0, kMost);
    if (value.contains("bytes")) row.bytes = integer(value, "bytes", where + ".bytes", 0, kMost);
    return row;
  }

  const json& document_;
  std::string_view source_;
};

}  // namespace

std::string write_timeline(const Timeline& timeline) {
  std::string out = fmt::format("{{\"format\":\"{}\",\"step\":{},\"source\":{},\"lanes\":[", kFormat, timeline.step,
                                json_text(timeline.source));
  for (std::size_t i = 0; i < timeline.lane_names.size(); ++i) {
    if (i) out += ',';
    out += json_text(timeline.lane_names[i]);
  }
  out += "],\"modules\":[";
  for (std::size_t i = 0; i < timeline.module_names.size(); ++i) {
    if (i) out += ',';
    out += json_text(timeline.module_names[i]);
  }
  out += "],\"rows\":[";
  bool first = true;
  for (const TimelineRow& row : timeline.rows) {
    const Operator& op = row.op;
    fmt::format_to(std::back_inserter(out), "{}\n{{\"lane\":{},\"op\":\"{}\"", first ? "" : ",", row.lane,
                   to_string(op.kind));
    first = false;
    if (op.is_transfer()) {
      append_end(out, timeline, "from", op.module, op.stage);
      append_end(out, timeline, "to", op.to_module, op.to_stage);
      fmt::format_to(std::back_inserter(out), ",\"direction\":\"{}\",\"peer\":{}", to_string(op.direction), op.peer);
    } else if (op.kind != OpKind::update) {
      fmt::format_to(std::back_inserter(out), ",\"module\":{}", json_text(module_name(timeline, op.module)));
    }
    if (op.microbatch >= 0) fmt::format_to(std::back_inserter(out), ",\"microbatch\":{}", op.microbatch);
    if (op.is_compute() && op.stage >= 0) fmt::format_to(std::back_inserter(out), ",\"stage\":{}", op.stage);
    fmt::format_to(std::back_inserter(out), ",\"start_ns\":{},\"end_ns\":{},\"wait_ns\":{},\"bytes\":{}}}",
                   row.start_ns, row.end_ns, row.wait_ns, row.bytes);
  }
  out += "\n]}\n";
  return out;
}

Timeline read_timeline(std::string_view text, std::string_view source) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::exception& error) {
    throw Error(std::string(source) + ":1", "is no JSON", "");
  }
  return Reader(document, source).read();
}

}  // namespace nestor::scheduler
