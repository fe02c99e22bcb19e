#include <algorithm>

#include <nestor/modules/batch.h>

namespace nestor::modules {

bool Microbatch::has(std::string_view input) const {
  return std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) { return sample.has(input); });
}

std::int64_t Microbatch::max_count(std::string_view input) const {
  std::int64_t longest = 0;
  for (const auto& sample : samples) longest = std::max(longest, sample.count(input));
  return longest;
}

std::int64_t Microbatch::count(std::string_view input) const {
  std::int64_t sum = 0;
  for (const auto& sample : samples) sum += sample.count(input);
  return sum;
}

std::vector<SampleGroup> Dataset::groups(Split split) const {
  return {{"samples", 0, size(split), 1}};
}

std::string Dataset::caption(const Sample&) const {
  return {};
}

}  // namespace nestor::modules
