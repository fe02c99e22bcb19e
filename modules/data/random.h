#pragma once

#include <cstdint>

#include <nestor/modules/seed.h>

namespace nestor::modules {

/// A stream of integers from a Seed, equal on every machine and standard library (SplitMix64: Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014). Costs nothing to make, unlike a tensor generator.
class RandomStream {
 public:
  explicit RandomStream(const Seed& seed) : state_(seed.value()) {}
  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
  /// Uniform in [0, bound), bound > 0.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>((static_cast<unsigned __int128>(next()) * static_cast<std::uint64_t>(bound)) >>
                                     64);
  }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

/// The image of `index` under a pseudo-random permutation of [0, size): a four-round Feistel network with cycle
/// walking (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). No table, so any step is reached at
/// once and an epoch of any size costs no memory.
std::int64_t permuted_index(const Seed& seed, std::int64_t index, std::int64_t size);

}  // namespace nestor::modules
