#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <nestor/launch/driver/plot.h>

namespace nestor::launch {
namespace {

/// Dots in characters of a terminal: braille patterns have 2 by 4, a star is one.
class Dots {
 public:
  Dots(std::size_t columns, std::size_t lines, bool unicode)
      : across_(unicode ? 2 : 1), down_(unicode ? 4 : 1), columns_(columns), cells_(columns * lines, 0) {}
  std::size_t width() const { return columns_ * across_; }
  std::size_t height() const { return cells_.size() / columns_ * down_; }

  void set(std::size_t x, std::size_t y) {
    // Bits of a braille pattern, by line and column of its dot (Unicode, U+2800).
    static constexpr std::uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cells_[y / down_ * columns_ + x / across_] |= bits[y % down_][x % across_];
  }
  /// From one height to another, in one column.
  void set(std::size_t x, std::size_t from, std::size_t to) {
    for (std::size_t y = std::min(from, to); y <= std::max(from, to); ++y) set(x, y);
  }
  std::string line(std::size_t number) const {
    std::string text;
    for (std::size_t column = 0; column < columns_; ++column) {
      const std::uint8_t cell = cells_[number * columns_ + column];
      if (cell == 0 || across_ == 1) {
        text += cell == 0 ? ' ' : '*';
      } else {  // U+2800 + cell in UTF-8
        text += '\xE2';
        text += static_cast<char>(0xA0 | (cell >> 6));
        text += static_cast<char>(0x80 | (cell & 0x3F));
      }
    }
    while (text.ends_with(' ')) text.pop_back();
    return text;
  }

 private:
  const std::size_t across_, down_, columns_;
  std::vector<std::uint8_t> cells_;
};

/// The mean of every column's points; nothing where it has none.
std::vector<std::optional<double>> column_means(const std::vector<PlotPoint>& points, std::size_t columns) {
  std::vector<double> sums(columns, 0), counts(columns, 0);
  const double first = points.front().x, span = points.back().x - first;
  for (const PlotPoint& point : points) {
    const double place = span > 0 ? (point.x - first) / span * static_cast<double>(columns - 1) : 0;
    const auto column = static_cast<std::size_t>(std::lround(place));
    sums[column] += point.y;
    counts[column] += 1;
  }
  std::vector<std::optional<double>> means(columns);
  for (std::size_t i = 0; i < columns; ++i)
    if (counts[i] > 0) means[i] = sums[i] / counts[i];
  return means;
}

}  // namespace

std::string plot(const std::vector<PlotPoint>& all, const PlotSize& size) {
  std::vector<PlotPoint> points;
  for (const PlotPoint& point : all)
    if (std::isfinite(point.y)) points.push_back(point);
  if (points.empty()) return "";

  const auto [least, most] = std::minmax_element(points.begin(), points.end(),
                                                 [](const PlotPoint& a, const PlotPoint& b) { return a.y < b.y; });
  const std::string top = fmt::format("{:.4g}", most->y), bottom = fmt::format("{:.4g}", least->y);
  const std::size_t margin = std::max(top.size(), bottom.size());
  const auto lines = static_cast<std::size_t>(std::max(size.height, 2));
  const std::size_t columns = static_cast<std::size_t>(std::max(size.width, 20)) - margin - 2;
  Dots dots(columns, lines, size.unicode);

  const double span = most->y - least->y;
  const auto row = [&](double y) {  // from above
    const double share = span > 0 ? (most->y - y) / span : 0.5;
    return static_cast<std::size_t>(std::lround(share * static_cast<double>(dots.height() - 1)));
  };
  const auto means = column_means(points, dots.width());
  std::optional<std::size_t> before;  // column of the last point
  for (std::size_t x = 0; x < means.size(); ++x) {
    if (!means[x]) continue;
    if (!before) dots.set(x, row(*means[x]));
    std::size_t last = before ? row(*means[*before]) : 0;
    for (std::size_t between = before ? *before + 1 : x + 1; between <= x; ++between) {
      const double share = static_cast<double>(between - *before) / static_cast<double>(x - *before);
      const std::size_t now = row(*means[*before] + share * (*means[x] - *means[*before]));
      // A steep line fills its column, up to the dot before.
      const std::size_t from = now > last + 1 ? last + 1 : now + 1 < last ? last - 1 : now;
      dots.set(between, from, now);
      last = now;
    }
    before = x;
  }

  const char* const axis = size.unicode ? "\xE2\x94\x82" : "|";    // U+2502
  const char* const corner = size.unicode ? "\xE2\x94\x94" : "+";  // U+2514
  const char* const floor = size.unicode ? "\xE2\x94\x80" : "-";   // U+2500
  std::string text;
  for (std::size_t line = 0; line < lines; ++line) {
    const std::string& label = line == 0 ? top : line + 1 == lines ? bottom : "";
    text += fmt::format("{:>{}} {}{}\n", label, margin, axis, dots.line(line));
  }
  text += fmt::format("{:>{}} {}", "", margin, corner);
  for (std::size_t i = 0; i < columns; ++i) text += floor;
  const std::string first = fmt::format("{:.10g}", points.front().x), last = fmt::format("{:.10g}", points.back().x);
  const std::size_t gap = columns > first.size() + last.size() ? columns - first.size() - last.size() : 1;
  text += fmt::format("\n{:>{}}  {}{:>{}}{}\n", "", margin, first, "", gap, points.size() > 1 ? last : "");
  return text;
}

}  // namespace nestor::launch
