#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nestor::scheduler {

/// Cuts layers into `stages` contiguous parts of which the costliest is as cheap as possible; returns stages + 1
/// offsets, first 0, last costs.size(). No layer is dropped; every part has a layer. `before_first` and `after_last`
/// are costs that stay with the first and the last part (embedding, head). Throws Error when stages > layers.
std::vector<std::int32_t> partition_layers(std::span<const double> costs, std::int32_t stages, double before_first = 0,
                                           double after_last = 0);

}  // namespace nestor::scheduler
