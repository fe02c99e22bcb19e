#pragma once

#include <cstdint>
#include <vector>

#include <nestor/modules/batch.h>

namespace nestor::modules {

/// int64 [rows, longest], padded on the right with `padding`.
Tensor collate_tokens(const std::vector<std::vector<std::int64_t>>& rows, std::int64_t padding);

}  // namespace nestor::modules
