#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include <nestor/launch/commands/timeline_input.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/plan.h>

namespace nestor::launch {
namespace {

using Json = nlohmann::json;
using scheduler::OpKind;
constexpr OpKind kKinds[] = {OpKind::forward, OpKind::backward, OpKind::backward_input, OpKind::backward_weight,
                             OpKind::recompute};
constexpr std::int64_t kMostProcesses = 1 << 16;

/// "forward vision.3 m5" or "backward llm.0 m2": the module's name.
std::string module_of(const std::string& slice) {
  auto begin = slice.find(' ') + 1;
  auto end = slice.rfind(" m");
  if (begin == 0 || end == slice.npos || end <= begin) return "";
  auto name = slice.substr(begin, end - begin);
  auto dot = name.rfind('.');
  bool staged = dot != name.npos && dot + 1 < name.size() &&
                std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(),
                            [](char c) { return c >= '0' && c <= '9'; });
  return staged ? name.substr(0, dot) : name;
}

std::int64_t nanoseconds(const Json& microseconds) {
  double value = microseconds.get<double>();
  if (!std::isfinite(value) || std::fabs(value) > 1e15) throw std::out_of_range("a time out of range");
  return std::llround(value * 1e3);
}

scheduler::Timeline from_trace(const Json& trace) {
  scheduler::Timeline timeline;
  if (auto other = trace.find("otherData"); other != trace.end()) {
    timeline.source = other->value("source", "measured");
    timeline.step = other->value("step", std::int64_t{0});
  }
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("ph", "") != "X") continue;
    auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                             [&](OpKind k) { return event.value("cat", "") == scheduler::to_string(k); });
    if (kind == std::end(kKinds)) continue;
    scheduler::TimelineRow row;
    auto lane = event.at("pid").get<std::int64_t>();
    if (lane < 0 || lane >= kMostProcesses) throw std::out_of_range("a process number out of range");
    row.lane = static_cast<std::int32_t>(lane);
    row.op.kind = *kind;
    auto name = module_of(event.at("name").get<std::string>());
    if (name.empty()) throw std::out_of_range("a slice without a module");
    auto module = std::find(timeline.module_names.begin(), timeline.module_names.end(), name);
    if (module == timeline.module_names.end()) {
      if (timeline.module_names.size() >= 1000) throw std::out_of_range("more than 1000 modules");
      // The LLM is module 0 everywhere.
      if (timeline.module_names.empty()) timeline.module_names.emplace_back("llm");
      module = name == "llm" ? timeline.module_names.begin()
                             : timeline.module_names.insert(timeline.module_names.end(), name);
    }
    row.op.module = static_cast<std::int16_t>(module - timeline.module_names.begin());
    const auto& args = event.at("args");
    row.op.microbatch = args.at("microbatch").get<std::int32_t>();
    row.op.stage = args.value("stage", -1);
    row.wait_ns = args.value("wait_ns", std::int64_t{0});
    row.start_ns = nanoseconds(event.at("ts"));
    row.end_ns = row.start_ns + nanoseconds(event.at("dur"));
    timeline.rows.push_back(row);
    while (timeline.lane_names.size() <= static_cast<std::size_t>(row.lane))
      timeline.lane_names.push_back("lane" + std::to_string(timeline.lane_names.size()));
  }
  std::stable_sort(timeline.rows.begin(), timeline.rows.end(), [](const auto& a, const auto& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.start_ns < b.start_ns;
  });
  return timeline;
}

}  // namespace

scheduler::Timeline read_any_timeline(const std::string& path) {
  auto text = read_text(path);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    auto line = 1 + std::count(text.begin(),
                               text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size())), '\n');
    throw InputError(path + ":" + std::to_string(line), "is not JSON", "a plan, a timeline or a trace");
  }
  auto format = json.is_object() && json.contains("format") && json["format"].is_string()
                    ? json["format"].get<std::string>()
                    : std::string();
  if (format == "nestor.plan/1") return scheduler::planned_timeline(scheduler::read_plan(text, path));
  if (format == "nestor.timeline/1") return scheduler::read_timeline(text, path);
  if (json.is_object() && json.contains("traceEvents")) {
    scheduler::Timeline timeline;
    try {
      timeline = from_trace(json);
    } catch (const std::exception& error) {
      throw InputError(path + ":traceEvents", "is no trace of this program: " + one_line(error.what(), 120));
    }
    if (timeline.rows.empty()) throw InputError(path + ":traceEvents", "has no operators of this program");
    return timeline;
  }
  throw InputError(path + ":format", "is none of nestor.plan/1, nestor.timeline/1 and a trace");
}

}  // namespace nestor::launch
