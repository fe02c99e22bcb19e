#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <nestor/launch/report/chart.h>
#include <nestor/launch/report/markup.h>

namespace nestor::launch {
namespace {

using Points = std::vector<std::pair<double, double>>;
constexpr double kLeft = 52, kRight = 14, kTop = 10, kBottom = 30;
constexpr std::size_t kMostPoints = 800;

/// Of each group of neighbours the lowest and the highest, in their order: thinning that keeps peaks.
Points thin(const Points& points) {
  if (points.size() <= kMostPoints) return points;
  Points kept;
  std::size_t groups = kMostPoints / 2;
  for (std::size_t g = 0; g < groups; ++g) {
    auto begin = points.begin() + static_cast<std::ptrdiff_t>(g * points.size() / groups);
    auto end = points.begin() + static_cast<std::ptrdiff_t>((g + 1) * points.size() / groups);
    auto [low, high] = std::minmax_element(begin, end, [](auto& a, auto& b) { return a.second < b.second; });
    kept.push_back(*std::min(low, high));
    if (low != high) kept.push_back(*std::max(low, high));
  }
  kept.back() = points.back();
  return kept;
}

struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  double from = 0, to = 1;  ///< in the picture

  double operator()(double value) const {
    double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }
  std::vector<double> ticks(int about) const {
    std::vector<double> ticks;
    if (logarithmic) {
      bool dense = std::log10(high / low) < 1.5;
      for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high * 1.0001; decade *= 10)
        for (double factor : {1.0, 2.0, 5.0})
          if ((dense || factor == 1) && decade * factor >= low * 0.9999 && decade * factor <= high * 1.0001)
            ticks.push_back(decade * factor);
      return ticks;
    }
    double raw = (high - low) / about, power = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (double factor : {5.0, 2.0, 1.0})
      if (power * factor >= raw * 0.999) step = power * factor;
    for (double tick = std::ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step)
      ticks.push_back(std::fabs(tick) < step * 1e-9 ? 0 : tick);
    return ticks;
  }
};

std::string tick_text(double value) {
  return std::fabs(value) >= 1e6 || (value != 0 && std::fabs(value) < 1e-3) ? fmt::format("{:.0e}", value)
                                                                            : fmt::format("{:.6g}", value);
}

/// Path data; a gap where a value is missing.
std::string path(const Points& points, const Axis& x, const Axis& y, bool stepped) {
  std::string d;
  bool pen_down = false;
  double last_y = 0;
  for (auto [px, py] : points) {
    if (!std::isfinite(py) || (y.logarithmic && py <= 0)) {
      pen_down = false;
      continue;
    }
    double at_x = x(px), at_y = y(py);
    if (stepped && pen_down) d += fmt::format("L{:.1f} {:.1f}", at_x, last_y);
    d += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', at_x, at_y);
    pen_down = true;
    last_y = at_y;
  }
  return d;
}

}  // namespace

Points smooth(const Points& points, double window) {
  // Exponential, corrected for its start (as Adam corrects its moments).
  double keep = std::exp(-1 / std::max(window, 1e-9)), mean = 0, weight = 0;
  Points out;
  out.reserve(points.size());
  for (auto [x, y] : points) {
    if (std::isfinite(y)) {
      mean = keep * mean + (1 - keep) * y;
      weight = keep * weight + (1 - keep);
    }
    out.emplace_back(x, weight > 0 ? mean / weight : y);
  }
  return out;
}

std::string line_chart(const ChartOptions& options, const std::vector<Series>& series) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  double low_x = infinite, high_x = -infinite, low_y = infinite, high_y = -infinite;
  std::vector<double> faint;
  for (const auto& one : series)
    for (auto [px, py] : one.points) {
      if (!std::isfinite(py) || (options.logarithmic && py <= 0)) continue;
      low_x = std::min(low_x, px), high_x = std::max(high_x, px);
      if (one.style == Series::Style::faint) {
        faint.push_back(py);
      } else {
        low_y = std::min(low_y, py), high_y = std::max(high_y, py);
      }
    }
  // The raw curve's rare spikes must not flatten the one that matters.
  if (!faint.empty()) {
    std::sort(faint.begin(), faint.end());
    auto at = [&](double share) {
      return faint[static_cast<std::size_t>(share * (static_cast<double>(faint.size()) - 1))];
    };
    low_y = std::min(low_y, at(0.002)), high_y = std::max(high_y, at(0.998));
  }
  if (!std::isfinite(low_x) || !std::isfinite(low_y)) return "";
  if (high_x == low_x) low_x -= 0.5, high_x += 0.5;
  if (options.from_zero) low_y = std::min(low_y, 0.0);
  if (options.logarithmic) {
    low_y /= 1.1, high_y *= 1.1;
  } else {
    double margin = high_y > low_y ? (high_y - low_y) * 0.06 : std::max(std::fabs(high_y) * 0.1, 1e-9);
    high_y += margin;
    if (low_y != 0) low_y -= margin;
  }

  Axis x{low_x, high_x, false, kLeft, options.width - kRight};
  Axis y{low_y, high_y, options.logarithmic, options.height - kBottom, kTop};

  std::string svg = fmt::format(R"html(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">)html",
                                options.width, options.height, escape_html(options.title));
  for (double tick : y.ticks(6))
    svg += fmt::format(
        R"html(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>)html",
        kLeft, options.width - kRight, y(tick), y(tick), kLeft - 7, y(tick) + 4, tick_text(tick));
  for (double tick : x.ticks(9))
    svg += fmt::format(R"html(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)html", x(tick),
                       options.height - kBottom + 18, tick_text(tick));
  svg += fmt::format(R"html(<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>)html", kLeft, options.width - kRight,
                     options.height - kBottom, options.height - kBottom);

  svg += fmt::format(R"html(<svg class="plot" x="{0}" y="{1}" width="{2}" height="{3}" viewBox="{0} {1} {2} {3}">)html",
                     kLeft, kTop - 4, options.width - kLeft - kRight + 6, options.height - kTop - kBottom + 8);
  std::string legend, data;
  for (const auto& one : series) {
    auto points = thin(one.points);
    if (points.empty()) continue;
    if (one.style == Series::Style::dots) {
      for (auto [px, py] : points)
        if (std::isfinite(py) && (!options.logarithmic || py > 0))
          svg += fmt::format(
              R"html(<circle class="dot" style="stroke:var(--series-{})" cx="{:.1f}" cy="{:.1f}" r="3.2"/>)html",
              one.colour, x(px), y(py));
    } else {
      svg += fmt::format(R"html(<path class="{}" style="stroke:var(--series-{})" d="{}"/>)html",
                         one.style == Series::Style::faint ? "faint" : "curve", one.colour,
                         path(points, x, y, one.style == Series::Style::step));
    }
    if (one.name.empty()) continue;
    legend += fmt::format(R"html(<span><i class="{}" style="--c:var(--series-{})"></i>{}</span>)html",
                          one.style == Series::Style::dots ? "ring" : "rule", one.colour, escape_html(one.name));
    data +=
        fmt::format(R"html({}{{"n":"{}","c":{},"p":[)html", data.empty() ? "" : ",", escape_html(one.name), one.colour);
    bool first = true;
    for (auto [px, py] : points) {
      if (!std::isfinite(py) || (options.logarithmic && py <= 0)) continue;
      data += fmt::format("{}[{:.6g},{:.5g},{:.1f},{:.1f}]", first ? "" : ",", px, py, x(px), y(py));
      first = false;
    }
    data += "]}";
  }
  svg += "</svg></svg>";
  return fmt::format(
      R"html(<figure class="panel" data-x="{}" data-unit="{}"><figcaption><b>{}</b><span class="legend">{}</span></figcaption>{}<script type="application/json">[{}]</script></figure>)html",
      escape_html(options.x_label), escape_html(options.y_unit), escape_html(options.title), legend, svg, data);
}

}  // namespace nestor::launch
