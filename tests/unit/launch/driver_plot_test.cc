#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <nestor/launch/driver/plot.h>

namespace nestor::launch {
namespace {

TEST(DriverPlot, DrawsAFallingLineWithBothAxesEnds) {
  const std::string text = plot({{1, 4}, {2, 3}, {3, 2}, {4, 1}}, {20, 4, false});
  EXPECT_EQ(text,
            "4 |***\n"
            "  |   *****\n"
            "  |        ******\n"
            "1 |              ***\n"
            "  +-----------------\n"
            "   1               4\n");
}

TEST(DriverPlot, LeavesOutWhatIsNoNumber) {
  const double none = std::nan("");
  EXPECT_EQ(plot({}, {}), "");
  EXPECT_EQ(plot({{1, none}, {2, std::numeric_limits<double>::infinity()}}, {}), "");
  EXPECT_EQ(plot({{1, 2}, {2, none}, {3, 1}}, {30, 5, true}), plot({{1, 2}, {3, 1}}, {30, 5, true}));
}

TEST(DriverPlot, DrawsOnePointAndAFlatLineInTheMiddle) {
  const std::string one = plot({{7, 2.5}}, {20, 3, false});
  EXPECT_NE(one.find("\n    |*\n"), std::string::npos) << one;
  const std::string flat = plot({{1, 2.5}, {9, 2.5}}, {20, 3, false});
  EXPECT_NE(flat.find("    |***************\n"), std::string::npos) << flat;
}

TEST(DriverPlot, ShowsTheMeanWhereThereAreMorePointsThanColumns) {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({static_cast<double>(i), i % 2 == 0 ? 1.0 : 3.0});
  points.front().y = points[1].y = 0;
  const std::string text = plot(points, {40, 8, true});
  std::size_t widest = 0, line = 0;
  for (const char c : text) {
    if (c == '\n')
      line = 0;
    else if ((c & 0xC0) != 0x80)
      widest = std::max(widest, ++line);
  }
  EXPECT_LE(widest, 40U);
  EXPECT_NE(text.find("9999"), std::string::npos);
}

TEST(DriverPlot, UsesBrailleDots) {
  // Two columns of dots a character: a rise from the lowest dot of the left to the highest of the right one.
  const std::string text = plot({{0, 0}, {1, 1}}, {20, 2, true});
  EXPECT_NE(text.find("\xE2\xA0"), std::string::npos) << text;
  EXPECT_EQ(text.find('*'), std::string::npos);
}

}  // namespace
}  // namespace nestor::launch
