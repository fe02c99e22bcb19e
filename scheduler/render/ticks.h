#pragma once

#include <cstdint>

namespace nestor::scheduler {

/// The round step (1, 2 or 5 times a power of ten, nanoseconds) that gives at most `most` ticks over a span.
inline std::int64_t tick_step_ns(std::int64_t span, std::int64_t most) {
  std::int64_t step = 1;
  for (int i = 0; span / step > most; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

}  // namespace nestor::scheduler
