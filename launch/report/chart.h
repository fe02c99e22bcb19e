#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nestor::launch {

struct Series {
  enum class Style { faint, line, dots, step };
  std::string name;                               ///< in the legend; empty: not in it
  std::vector<std::pair<double, double>> points;  ///< x ascending; a y that is not finite breaks the line
  Style style = Style::line;
  int colour = 1;  ///< --series-N of the page
};

struct ChartOptions {
  std::string title, x_label, y_unit;
  bool logarithmic = false;  ///< y, where all values are above 0
  bool from_zero = false;
  double width = 560, height = 240;
};

/// A chart as inline SVG inside a <figure>, coloured by the page's style, with the values under the pointer shown by
/// the page's script. Long series are thinned to what a screen can show, keeping peaks.
std::string line_chart(const ChartOptions& options, const std::vector<Series>& series);

/// A moving average over about `window` points.
std::vector<std::pair<double, double>> smooth(const std::vector<std::pair<double, double>>& points, double window);

}  // namespace nestor::launch
