#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <nestor/scheduler/timeline.h>

namespace nestor::scheduler {
namespace {

enum Thread : std::int32_t { compute, send, recv, host };
constexpr std::array<std::string_view, 4> kThreadNames{"compute", "send", "recv", "host"};
/// Threads of a lane are kind * kTracks + track: slices of one thread must nest, so transfers that overlap in part
/// get further tracks.
constexpr std::int32_t kTracks = 4096;
/// A slice needs some width to hold the end of an arrow; the trace's resolution is a nanosecond.
constexpr std::int64_t kLeastDuration = 1;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with the nanoseconds as fraction, exactly.
std::string microseconds(std::int64_t ns) {
  const std::int64_t whole = ns / 1000, rest = ns % 1000;
  return fmt::format("{}{}.{:03}", ns < 0 && whole == 0 ? "-" : "", whole, rest < 0 ? -rest : rest);
}

Thread thread_of(const Operator& op) {
  if (op.kind == OpKind::send) return send;
  if (op.kind == OpKind::recv) return recv;
  return op.is_compute() ? compute : host;
}

std::string slice_name(const Timeline& timeline, const Operator& op) {
  if (op.kind == OpKind::update) return std::string(to_string(op.kind));
  const auto module = static_cast<std::size_t>(op.module);
  std::string out = module < timeline.module_names.size()
                        ? fmt::format("{} {}", to_string(op.kind), timeline.module_names[module])
                        : fmt::format("{} module {}", to_string(op.kind), op.module);
  if (op.stage >= 0) out += fmt::format(".{}", op.stage);
  if (op.microbatch >= 0) out += fmt::format(" m{}", op.microbatch);
  return out;
}

/// Gives each row the first track of its thread where it nests: inside the slice that is open there, or after it.
class Tracks {
 public:
  std::int32_t place(std::int64_t start, std::int64_t end) {
    for (std::size_t t = 0; t < open_.size(); ++t) {
      auto& stack = open_[t];
      while (!stack.empty() && stack.back() <= start) stack.pop_back();
      if (stack.empty() || end <= stack.back()) {
        stack.push_back(end);
        return static_cast<std::int32_t>(t);
      }
    }
    if (open_.size() < static_cast<std::size_t>(kTracks)) open_.emplace_back();
    open_.back().push_back(end);
    return static_cast<std::int32_t>(open_.size()) - 1;
  }
  std::int32_t count() const { return static_cast<std::int32_t>(open_.size()); }

 private:
  std::vector<std::vector<std::int64_t>> open_;  ///< by track: ends of the slices that are open, outermost first
};

struct Slice {
  std::int64_t start, end;
  std::int32_t thread;
};

class TraceWriter {
 public:
  explicit TraceWriter(const Timeline& timeline) : timeline_(timeline) {}

  std::string write() {
    out_ = "{\"displayTimeUnit\":\"ms\",\"otherData\":";
    out_ += fmt::format("{{\"source\":{},\"step\":{}}},\"traceEvents\":[", json_text(timeline_.source), timeline_.step);
    lay_out();
    metadata();
    slices();
    arrows();
    counters();
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  template <class... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void lay_out() {
    std::size_t lanes = timeline_.lane_names.size();
    for (const TimelineRow& row : timeline_.rows) lanes = std::max(lanes, static_cast<std::size_t>(row.lane) + 1);
    tracks_.resize(lanes);
    std::vector<std::uint32_t> order(timeline_.rows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    // By start, longer first, so that an outer slice is placed before those inside it.
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const TimelineRow &x = timeline_.rows[a], &y = timeline_.rows[b];
      return std::tuple(x.start_ns, -x.end_ns) < std::tuple(y.start_ns, -y.end_ns);
    });
    slices_.resize(timeline_.rows.size());
    for (std::uint32_t i : order) {
      const TimelineRow& row = timeline_.rows[i];
      const std::int64_t end = std::max(row.end_ns, row.start_ns + kLeastDuration);
      const Thread thread = thread_of(row.op);
      const std::int32_t track = tracks_[static_cast<std::size_t>(row.lane)][thread].place(row.start_ns, end);
      slices_[i] = {row.start_ns, end, thread * kTracks + track};
    }
  }

  void metadata() {
    for (std::size_t lane = 0; lane < tracks_.size(); ++lane) {
      const std::string name =
          lane < timeline_.lane_names.size() ? timeline_.lane_names[lane] : fmt::format("lane{}", lane);
      event(R"({{"ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}}}})", lane, json_text(name));
      event(R"({{"ph":"M","pid":{},"tid":0,"name":"process_sort_index","args":{{"sort_index":{}}}}})", lane, lane);
      for (std::int32_t thread = 0; thread < 4; ++thread)
        for (std::int32_t track = 0; track < tracks_[lane][static_cast<std::size_t>(thread)].count(); ++track) {
          const std::int32_t tid = thread * kTracks + track;
          const std::string label = fmt::format("{}{}", kThreadNames[static_cast<std::size_t>(thread)],
                                                track ? fmt::format(" {}", track + 1) : std::string());
          event(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})", lane, tid, label);
          event(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})", lane, tid,
                tid);
        }
    }
  }

  void slices() {
    for (std::size_t i = 0; i < timeline_.rows.size(); ++i) {
      const TimelineRow& row = timeline_.rows[i];
      const Slice& slice = slices_[i];
      event(R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":"{}","ts":{},"dur":{},"args":{{)", row.lane, slice.thread,
            json_text(slice_name(timeline_, row.op)), to_string(row.op.kind), microseconds(slice.start),
            microseconds(slice.end - slice.start));
      std::string_view separator;
      auto argument = [&](std::string_view key, std::int64_t value) {
        fmt::format_to(std::back_inserter(out_), "{}\"{}\":{}", separator, key, value);
        separator = ",";
      };
      if (row.op.microbatch >= 0) argument("microbatch", row.op.microbatch);
      if (row.op.stage >= 0) argument("stage", row.op.stage);
      if (row.op.is_transfer()) {
        argument("peer", row.op.peer);
        argument("bytes", row.bytes);
      }
      if (row.wait_ns > 0) argument("wait_ns", row.wait_ns);
      out_ += "}}";
    }
  }

  /// An arrow from each send to the receive of the same edge, direction and microbatch.
  void arrows() {
    using Key = std::tuple<std::int16_t, std::int32_t, std::int16_t, std::int32_t, Direction, std::int32_t>;
    auto key = [](const Operator& op) {
      return Key{op.module, op.stage, op.to_module, op.to_stage, op.direction, op.microbatch};
    };
    std::vector<std::pair<Key, std::size_t>> sends, recvs;
    for (std::size_t i = 0; i < timeline_.rows.size(); ++i) {
      const Operator& op = timeline_.rows[i].op;
      if (op.kind == OpKind::send) sends.emplace_back(key(op), i);
      if (op.kind == OpKind::recv) recvs.emplace_back(key(op), i);
    }
    std::sort(sends.begin(), sends.end());
    std::sort(recvs.begin(), recvs.end());
    std::size_t id = 0;
    for (std::size_t s = 0, r = 0; s < sends.size() && r < recvs.size();) {
      if (sends[s].first < recvs[r].first) {
        ++s;
      } else if (recvs[r].first < sends[s].first) {
        ++r;
      } else {
        const std::size_t from = sends[s++].second, to = recvs[r++].second;
        const std::string_view name = to_string(timeline_.rows[from].op.direction);
        ++id;
        event(R"({{"ph":"s","pid":{},"tid":{},"id":{},"cat":"transfer","name":"{}","ts":{}}})",
              timeline_.rows[from].lane, slices_[from].thread, id, name, microseconds(slices_[from].start));
        // At the last instant inside the receive, but not before its start.
        event(R"({{"ph":"f","bp":"e","pid":{},"tid":{},"id":{},"cat":"transfer","name":"{}","ts":{}}})",
              timeline_.rows[to].lane, slices_[to].thread, id, name,
              microseconds(std::max(slices_[to].start, slices_[to].end - kLeastDuration)));
      }
    }
  }

  void counters() {
    const auto curves = in_flight_over_time(timeline_);
    for (std::size_t lane = 0; lane < curves.size(); ++lane)
      for (std::size_t module = 0; module < curves[lane].size(); ++module) {
        const auto& points = curves[lane][module];
        for (std::size_t i = 0; i < points.size(); ++i) {
          if (i + 1 < points.size() && points[i + 1].at_ns == points[i].at_ns) continue;
          const std::string name =
              module < timeline_.module_names.size() ? timeline_.module_names[module] : std::to_string(module);
          event(R"({{"ph":"C","pid":{},"name":"activations in flight","ts":{},"args":{{{}:{}}}}})", lane,
                microseconds(points[i].at_ns), json_text(name), points[i].value);
        }
      }
  }

  const Timeline& timeline_;
  std::string out_;
  bool first_ = true;
  std::vector<std::array<Tracks, 4>> tracks_;  ///< by lane
  std::vector<Slice> slices_;                  ///< by row
};

}  // namespace

std::string write_trace(const Timeline& timeline) {
  return TraceWriter(timeline).write();
}

}  // namespace nestor::scheduler
