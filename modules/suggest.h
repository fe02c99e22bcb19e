#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nestor::modules {

/// The known name nearest to `name` by edit distance, or empty where none is near.
std::string nearest(std::string_view name, std::span<const std::string> known);
/// `did you mean "steps"?`, or `known: a, b, c` where nothing is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace nestor::modules
