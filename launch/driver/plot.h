#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nestor::launch {

struct PlotPoint {
  double x = 0, y = 0;
};

struct PlotSize {
  std::int32_t width = 72;   ///< of the whole text, in characters; at least 20 are used
  std::int32_t height = 10;  ///< of the curve alone, in lines; at least 2 are used
  bool unicode = true;       ///< braille, eight dots a character; else one * a character
};

/// A curve as text, with both axes' ends. Points by rising x. Where there are more of them than columns of dots, a
/// column shows their mean; where fewer, they are joined. Values that are no numbers are left out; where none is left,
/// the text is empty.
std::string plot(const std::vector<PlotPoint>& points, const PlotSize& size);

}  // namespace nestor::launch
