#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Generator.h>

namespace nestor::modules {

/// A place in the tree of random streams: (seed, module, layer, use) for weights, (seed, step, sample, module, layer,
/// use) in a step. Every draw comes from a generator made here, never from LibTorch's default one, so that reordering,
/// a resize or a restart changes nothing.
class Seed {
 public:
  constexpr explicit Seed(std::uint64_t value = 1) : value_(value) {}
  Seed child(std::string_view name) const;
  Seed child(std::int64_t index) const;
  std::uint64_t value() const { return value_; }
  /// A CPU generator of this stream, fresh at each call: equal seeds draw equal numbers on every device and dtype.
  at::Generator generator() const;

 private:
  std::uint64_t value_;
};

/// Where a module's initial weights come from: what its factory is called with.
Seed weight_seed(Seed run, std::string_view module);
/// Where the randomness of a step comes from; Context::random goes on from it.
Seed step_seed(Seed run, std::int64_t step);

}  // namespace nestor::modules
