// Shapes, held in place or not.
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/buffer.h>

namespace nestor::comm {
namespace {

std::vector<std::int64_t> counting(std::size_t rank) {
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < rank; ++i) extents.push_back(static_cast<std::int64_t>(i + 2));
  return extents;
}

TEST(Shape, CopiesAndMovesBetweenAllRanks) {
  for (std::size_t from = 0; from < 9; ++from) {
    for (std::size_t to = 0; to < 9; ++to) {
      Shape source(counting(from)), target(counting(to));
      target = source;
      EXPECT_EQ(target, source) << from << " " << to;
      target[0] = 100;  // there is room in place even where the rank is 0
      EXPECT_EQ(source, counting(from)) << "copies share nothing";
      target = Shape(counting(to));
      target = std::move(source);
      EXPECT_EQ(target, counting(from)) << from << " " << to;
      source.assign(counting(to).size(), 7);  // usable again
      EXPECT_EQ(source, std::vector<std::int64_t>(to, 7));
      Shape constructed(target), taken(std::move(target));
      EXPECT_EQ(constructed, taken);
      EXPECT_EQ(std::vector<std::int64_t>(taken.begin(), taken.end()), counting(from));
    }
  }
}

TEST(Shape, IsComparedByRankAndExtents) {
  EXPECT_EQ(Shape({2, 3}), (std::vector<std::int64_t>{2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({2, 3, 1}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_EQ(Shape(), Shape({}));
  Descriptor descriptor;
  descriptor.dtype = DType::int64;
  EXPECT_EQ(descriptor.bytes(), 8u) << "a scalar";
  descriptor.shape = {3, 1, 2, 1, 2, 5};
  EXPECT_EQ(descriptor.bytes(), 480u);
}

}  // namespace
}  // namespace nestor::comm
