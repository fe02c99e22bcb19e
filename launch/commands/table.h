#pragma once

#include <string>
#include <vector>

namespace nestor::launch {

/// Rows of equally many cells as text: the first column to the left, the others to the right, two spaces between. The
/// first row is the header; there is at least that one.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace nestor::launch
