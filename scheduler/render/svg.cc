#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include <nestor/scheduler/render/letters.h>
#include <nestor/scheduler/render/svg.h>
#include <nestor/scheduler/render/ticks.h>

namespace nestor::scheduler {
namespace {

constexpr double kWidest = 16000;  // pixels of the time axis
constexpr double kLegible = 15;    // pixels of a typical operator
constexpr double kTop = 24;        // the ruler
constexpr double kNarrow = 0.5;    // operators below this many pixels are drawn together
constexpr int kPalette = 6;
constexpr std::size_t kMostLegible = 30000;  // operators that are drawn one by one
constexpr std::size_t kMostArrows = 4000;

class Drawing {
 public:
  Drawing(const Timeline& timeline, const SvgOptions& options)
      : timeline_(timeline), options_(options), letters_(timeline) {
    lanes_ = timeline.lane_names.size();
    for (const TimelineRow& row : timeline.rows) lanes_ = std::max(lanes_, static_cast<std::size_t>(row.lane) + 1);
    std::vector<std::int64_t> lengths;
    bool first = true;
    std::int64_t end = 0;
    for (const TimelineRow& row : timeline.rows) {
      origin_ = first ? row.start_ns : std::min(origin_, row.start_ns);
      end = first ? row.end_ns : std::max(end, row.end_ns);
      first = false;
      if (row.op.is_compute() && row.end_ns > row.start_ns) lengths.push_back(row.end_ns - row.start_ns);
    }
    span_ = std::max<std::int64_t>({end - origin_, options.span_ns, 1});
    std::size_t longest = 4;
    for (const auto& name : timeline.lane_names) longest = std::max(longest, std::min<std::size_t>(name.size(), 24));
    left_ = 14 + 7.2 * static_cast<double>(longest);
    std::set<std::int32_t> modules;
    for (const TimelineRow& row : timeline.rows)
      if (row.op.is_compute()) modules.insert(row.op.module);
    right_ = 16 + (options.in_flight ? 24 * static_cast<double>(modules.size()) : 0);
    double wanted = std::max(options.width, 320) - left_ - right_;
    if (!lengths.empty() && lengths.size() <= kMostLegible) {
      const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 4);
      std::nth_element(lengths.begin(), middle, lengths.end());
      const double legible = std::min(kWidest, kLegible * static_cast<double>(span_) / static_cast<double>(*middle));
      if (legible > 1.5 * wanted)
        wanted = legible;  // a little too narrow is better than a little too wide for the page
    }
    axis_ = wanted;
    bar_ = lanes_ > 32 ? 12 : lanes_ > 12 ? 20 : 28;
    step_ = bar_ + (lanes_ > 32 ? 3 : 8);
    strip_ = lanes_ > 32 ? 12 : 28;
  }

  std::int32_t width() const { return static_cast<std::int32_t>(std::lround(left_ + axis_ + right_)); }

  std::string draw() {
    const double lanes_end = kTop + step_ * static_cast<double>(lanes_);
    double height = lanes_end + 4;
    ruler(lanes_end);
    lanes();
    if (options_.transfers) arrows();
    if (options_.in_flight) height = strips(lanes_end + 30) + 4;
    if (options_.standalone) height = legend(height + 6);
    const double width = left_ + axis_ + right_;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"nt\" width=\"{:.0f}\" height=\"{:.0f}\" viewBox=\"0 0 "
        "{:.0f} "
        "{:.0f}\" role=\"img\" aria-label=\"{} timeline\">\n",
        width, height, width, height, xml_text(timeline_.source));
    if (options_.standalone)
      out += fmt::format("<style>{}</style>\n<rect class=\"nt-page\" width=\"100%\" height=\"100%\"/>\n", svg_style());
    return out + body_ + "</svg>\n";
  }

 private:
  double x(std::int64_t ns) const {
    return left_ + axis_ * static_cast<double>(ns - origin_) / static_cast<double>(span_);
  }
  double y(std::size_t lane) const { return kTop + step_ * static_cast<double>(lane); }
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }
  std::string lane_name(std::size_t lane) const {
    return lane < timeline_.lane_names.size() ? timeline_.lane_names[lane] : fmt::format("lane{}", lane);
  }
  std::string module_name(std::int32_t module) const {
    const auto m = static_cast<std::size_t>(module);
    return m < timeline_.module_names.size() ? timeline_.module_names[m] : fmt::format("module {}", module);
  }

  void ruler(double bottom) {
    const auto most = std::max<std::int64_t>(static_cast<std::int64_t>(axis_ / 90), 1);
    const std::int64_t step = tick_step_ns(span_, most);
    for (std::int64_t at = 0; at <= span_; at += step) {
      const double here = x(origin_ + at);
      add("<path class=\"nt-grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/><text class=\"nt-tick\" x=\"{:.1f}\" "
          "y=\"13\">{}</text>\n",
          here, kTop - 6, bottom, here + 3, at == 0 ? "0" : time_text(at));
    }
  }

  std::string tip(const TimelineRow& row) const {
    const Operator& op = row.op;
    std::string text{to_string(op.kind)};
    if (op.kind != OpKind::update) text += " " + module_name(op.module);
    if (op.stage >= 0) text += fmt::format(" stage {}", op.stage);
    if (op.microbatch >= 0) text += fmt::format(", microbatch {}", op.microbatch);
    text += fmt::format("\n{} from {} to {}", time_text(row.end_ns - row.start_ns), time_text(row.start_ns - origin_),
                        time_text(row.end_ns - origin_));
    if (row.wait_ns > 0) text += fmt::format("\nof it waiting {}", time_text(row.wait_ns));
    return xml_text(text);
  }

  static std::string_view kind_class(const Operator& op) {
    switch (op.kind) {
      case OpKind::forward:
        return "f";
      case OpKind::backward_weight:
        return "w";
      case OpKind::recompute:
        return "r";
      case OpKind::reduce:
      case OpKind::update:
        return "e";
      default:
        return "b";
    }
  }

  void bar(std::size_t lane, double from, double to, const TimelineRow& row, bool alone) {
    const double width = std::max(to - from, kNarrow), inset = width > 4 ? 0.5 : 0;
    const bool end = row.op.kind >= OpKind::reduce;
    const bool chunk = row.op.module == 0 && !end && letters_.chunk(row.lane, row.op.stage) % 2 == 1;
    add("<rect class=\"{} {}{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"{}",
        svg_class(row.op.module), kind_class(row.op), chunk ? " c" : "", from, y(lane), width - inset, bar_,
        width > 6 ? " rx=\"2\"" : "");
    if (!alone) {
      add("/>\n");
      return;
    }
    add("><title>{}</title></rect>", tip(row));
    const std::string label = end ? std::string() : std::to_string(row.op.microbatch);
    if (!label.empty() && bar_ >= 12 && width >= 3 + 6.4 * static_cast<double>(label.size()))
      add("<text class=\"nt-n {}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", kind_class(row.op), from + (width - inset) / 2,
          y(lane) + bar_ / 2, label);
    add("\n");
  }

  void lanes() {
    std::vector<std::vector<const TimelineRow*>> by_lane(lanes_);
    for (const TimelineRow& row : timeline_.rows)
      if (!row.op.is_transfer()) by_lane[static_cast<std::size_t>(row.lane)].push_back(&row);
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      add("<text class=\"nt-lane\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text><rect class=\"nt-idle\" x=\"{:.1f}\" "
          "y=\"{:.1f}\" "
          "width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
          left_ - 8, y(lane) + bar_ / 2, xml_text(lane_name(lane).substr(0, 24)), left_, y(lane), axis_, bar_);
      for (std::size_t i = 0; i < by_lane[lane].size();) {
        const TimelineRow& row = *by_lane[lane][i];
        const double from = x(row.start_ns);
        double to = x(row.end_ns);
        std::size_t next = i + 1;
        if (row.op.kind >= OpKind::reduce && row.end_ns <= row.start_ns) {  // an instant: no work to draw
          i = next;
          continue;
        }
        const TimelineRow* shown = &row;  // of those drawn together the longest
        if (to - from < kNarrow)
          for (; next < by_lane[lane].size() && x(by_lane[lane][next]->end_ns) - from < 1.5; ++next) {
            const TimelineRow* other = by_lane[lane][next];
            if (other->end_ns - other->start_ns > shown->end_ns - shown->start_ns) shown = other;
            to = x(other->end_ns);
          }
        bar(lane, from, to, *shown, next == i + 1);
        i = next;
      }
    }
  }

  void arrows() {
    using Key = std::tuple<std::int16_t, std::int32_t, std::int16_t, std::int32_t, Direction, std::int32_t>;
    std::vector<std::pair<Key, const TimelineRow*>> sends, recvs;
    for (const TimelineRow& row : timeline_.rows) {
      const Operator& op = row.op;
      if (op.is_transfer())
        (op.kind == OpKind::send ? sends : recvs)
            .emplace_back(Key{op.module, op.stage, op.to_module, op.to_stage, op.direction, op.microbatch}, &row);
    }
    if (sends.size() > kMostArrows) return;
    auto by_key = [](const auto& a, const auto& b) { return a.first < b.first; };
    std::sort(recvs.begin(), recvs.end(), by_key);
    add("<g class=\"nt-arrows\">\n");
    for (const auto& [key, send] : sends) {
      const auto recv = std::lower_bound(recvs.begin(), recvs.end(), std::pair(key, send), by_key);
      if (recv == recvs.end() || recv->first != key) continue;
      const auto from = static_cast<std::size_t>(send->lane), to = static_cast<std::size_t>(recv->second->lane);
      const bool down = to > from;
      // From the edge of the sender's bar to the facing edge of the reader's, when the data leaves and when it is
      // there.
      add("<path{} d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n",
          send->op.direction == Direction::gradient ? " class=\"g\"" : "", x(send->start_ns),
          y(from) + (down ? bar_ : 0), x(recv->second->end_ns), y(to) + (down ? 0 : bar_));
    }
    add("</g>\n");
  }

  double strips(double top) {
    const auto curves = in_flight_over_time(timeline_);
    double most = 1;
    for (const auto& lane : curves)
      for (const auto& module : lane)
        for (const InFlightPoint& point : module) most = std::max(most, point.value);
    add("<text class=\"nt-head\" x=\"{:.1f}\" y=\"{:.1f}\">activations in flight, microbatches (peaks to the "
        "right)</text>\n",
        left_, top - 8);
    const double step = strip_ + (lanes_ > 32 ? 3 : 7);
    for (std::size_t lane = 0; lane < curves.size(); ++lane) {
      const double base = top + step * static_cast<double>(lane) + strip_;
      add("<text class=\"nt-lane\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text><path class=\"nt-base\" d=\"M{:.1f} "
          "{:.1f}h{:.1f}\"/>\n",
          left_ - 8, base - strip_ / 2, xml_text(lane_name(lane).substr(0, 24)), left_, base, axis_);
      double at = left_ + axis_ + 8;
      for (std::size_t module = 0; module < curves[lane].size(); ++module) {
        const auto& points = curves[lane][module];
        if (points.empty()) continue;
        std::string path = fmt::format("M{:.1f} {:.1f}", x(points.front().at_ns), base);
        double peak = 0, drawn = -1;
        for (std::size_t i = 0; i < points.size(); ++i) {
          peak = std::max(peak, points[i].value);
          if (i + 1 < points.size() && points[i + 1].at_ns == points[i].at_ns) continue;
          const double here = x(points[i].at_ns);
          if (here - drawn < 0.3 && i + 1 < points.size() && points[i].value < peak) continue;
          drawn = here;
          fmt::format_to(std::back_inserter(path), "H{:.1f}V{:.1f}", here, base - strip_ * points[i].value / most);
        }
        add("<path class=\"{} p\" d=\"{}\"><title>{}, {}: at most {:.4g} in flight</title></path>\n",
            svg_class(static_cast<std::int32_t>(module)), path, xml_text(lane_name(lane)),
            xml_text(module_name(static_cast<std::int32_t>(module))), peak);
        add("<text class=\"nt-peak {}\" x=\"{:.1f}\" y=\"{:.1f}\">{:.3g}</text>\n",
            svg_class(static_cast<std::int32_t>(module)), at, base - strip_ / 2, peak);
        at += 24;
      }
    }
    return top + step * static_cast<double>(curves.size());
  }

  double legend(double top) {
    double at = left_;
    std::vector<std::uint8_t> used(256, 0);
    for (const TimelineRow& row : timeline_.rows)
      if (row.op.is_compute() && row.op.module < 256) used[static_cast<std::size_t>(row.op.module)] = 1;
    for (std::int32_t module = 0; module < 256; ++module) {
      if (!used[static_cast<std::size_t>(module)]) continue;
      const std::string name = module_name(module);
      add("<rect class=\"{0} f\" x=\"{1:.1f}\" y=\"{2:.1f}\" width=\"12\" height=\"12\" rx=\"2\"/><rect class=\"{0} "
          "b\" "
          "x=\"{3:.1f}\" y=\"{2:.1f}\" width=\"12\" height=\"12\" rx=\"2\"/><text class=\"nt-key\" x=\"{4:.1f}\" "
          "y=\"{5:.1f}\">{6} forward, backward</text>\n",
          svg_class(module), at, top, at + 14, at + 32, top + 10, xml_text(name));
      at += 32 + 6.6 * static_cast<double>(name.size() + 18) + 18;
    }
    return top + 22;
  }

  const Timeline& timeline_;
  const SvgOptions& options_;
  const Letters letters_;
  std::string body_;
  std::size_t lanes_ = 0;
  std::int64_t origin_ = 0, span_ = 1;
  double left_ = 60, right_ = 16, axis_ = 1000, bar_ = 28, step_ = 36, strip_ = 24;
};

}  // namespace

std::string render_svg(const Timeline& timeline, const SvgOptions& options) {
  return Drawing(timeline, options).draw();
}

std::int32_t svg_width(const Timeline& timeline, const SvgOptions& options) {
  return Drawing(timeline, options).width();
}

std::string svg_class(std::int32_t module) {
  return fmt::format("nt-m{}", std::clamp(module, 0, kPalette - 1));
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n')
      out += c;
  }
  return out;
}

std::string time_text(std::int64_t ns) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  if (ns == 0) return "0 s";
  if (std::abs(seconds) < 1e-6) return fmt::format("{} ns", ns);
  if (std::abs(seconds) < 1e-3) return fmt::format("{:.4g} µs", seconds * 1e6);
  if (std::abs(seconds) < 1) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.6g} s", seconds);
}

std::string svg_style() {
  struct Colours {
    const char *forward, *backward, *dark_forward, *dark_backward;
  };
  static constexpr Colours kColours[kPalette] = {
      {"#a9caf5", "#2f6bc6", "#8db6ee", "#2b5fb0"}, {"#fbd08f", "#d67a1d", "#f2bd6f", "#b8650f"},
      {"#d6b8f7", "#8545cf", "#c7a2f2", "#7238b8"}, {"#9fe0d2", "#16917a", "#80d3c2", "#0f7a66"},
      {"#f8b4c8", "#cb3c6a", "#f09ab4", "#ad2c57"}, {"#d6dd97", "#7f8f1b", "#c6cf7c", "#6c7a12"}};
  std::string light =
      "--nt-page:#fff;--nt-ink:#1d2733;--nt-soft:#66727f;--nt-line:#dde3ea;--nt-idle:#f3f5f8;--nt-end:#9aa5b1;";
  std::string dark =
      "--nt-page:#12171e;--nt-ink:#e6ebf1;--nt-soft:#95a1ae;--nt-line:#2b343f;--nt-idle:#1b222b;--nt-end:#5d6875;";
  std::string rules;
  for (int i = 0; i < kPalette; ++i) {
    light += fmt::format("--nt-{0}f:{1};--nt-{0}b:{2};--nt-{0}t:{2};", i, kColours[i].forward, kColours[i].backward);
    dark += fmt::format("--nt-{0}f:{1};--nt-{0}b:{2};--nt-{0}t:{1};", i, kColours[i].dark_forward,
                        kColours[i].dark_backward);
    rules += fmt::format(
        ".nt-m{0}.f{{fill:var(--nt-{0}f)}}.nt-m{0}.b{{fill:var(--nt-{0}b)}}.nt-m{0}.w{{fill:var(--nt-{0}b);fill-"
        "opacity:.62}}"
        ".nt-m{0}.r{{fill:var(--nt-{0}f);stroke:var(--nt-{0}b);stroke-dasharray:3 2}}"
        ".nt-m{0}.p{{fill:var(--nt-{0}b);fill-opacity:.16;stroke:var(--nt-{0}b);stroke-width:1.4}}"
        ".nt-peak.nt-m{0}{{fill:var(--nt-{0}t)}}",
        i);
  }
  return fmt::format(
      ":root{{{0}}}@media (prefers-color-scheme:dark){{:root{{{1}}}}}"
      ".nt{{display:block;font:11px system-ui,-apple-system,'Segoe UI',sans-serif}}.nt-page{{fill:var(--nt-page)}}"
      ".nt-idle{{fill:var(--nt-idle)}}.nt-grid,.nt-base{{stroke:var(--nt-line);fill:none}}"
      ".nt-tick{{fill:var(--nt-soft);font-size:10.5px}}.nt-lane{{fill:var(--nt-ink);text-anchor:end;dominant-baseline:"
      "central;"
      "font-size:12px}}.nt-head{{fill:var(--nt-soft);font-size:11.5px}}.nt-key{{fill:var(--nt-ink);font-size:12px}}"
      ".nt-peak{{dominant-baseline:central;font-size:11px;font-weight:600}}.nt-n{{text-anchor:middle;dominant-baseline:"
      "central;pointer-events:none;font-size:10.5px}}.nt-n.f,.nt-n.r{{fill:"
      "#17202b}}"
      ".nt-n.b,.nt-n.w{{fill:#fff}}.nt rect.c{{filter:hue-rotate(20deg) brightness(.92)}}.nt "
      "rect.e{{fill:var(--nt-end)}}"
      ".nt rect:hover{{stroke:var(--nt-ink);stroke-width:1.2}}.nt-arrows "
      "path{{stroke:var(--nt-soft);stroke-opacity:.55;"
      "stroke-width:.8;fill:none;pointer-events:none}}.nt-arrows path.g{{stroke-dasharray:3 2}}{2}",
      light, dark, rules);
}

}  // namespace nestor::scheduler
