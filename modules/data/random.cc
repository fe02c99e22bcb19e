#include <utility>

#include <nestor/modules/data/random.h>

namespace nestor::modules {

std::int64_t permuted_index(const Seed& seed, std::int64_t index, std::int64_t size) {
  int half = 1;
  while (half < 31 && (std::int64_t{1} << (2 * half)) < size) ++half;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto value = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = value >> half, right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = RandomStream::mix(seed.value() + RandomStream::mix((round << 56) ^ right));
      left ^= mixed & mask;
      std::swap(left, right);
    }
    value = left << half | right;
  } while (value >= static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(value);
}

}  // namespace nestor::modules
