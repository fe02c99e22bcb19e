#include <algorithm>

#include <nestor/modules/module.h>

namespace nestor::modules {

at::Generator Context::random(const Sample& sample, std::string_view use) const {
  return seed.child(static_cast<std::int64_t>(sample.split))
      .child(sample.id)
      .child(sample.draw)
      .child(module)
      .child(use)
      .generator();
}

double Module::forward_flops(const Microbatch& microbatch) const {
  double parameters_count = 0;
  for (const auto& parameter : parameters()) parameters_count += static_cast<double>(parameter.numel());
  std::map<std::string, std::int64_t, std::less<>> totals;
  for (const auto& sample : microbatch.samples)
    for (const auto& [input, count] : sample.counts) totals[input] += count;
  std::int64_t largest = 0;
  for (const auto& [input, count] : totals) largest = std::max(largest, count);
  return 2.0 * parameters_count * static_cast<double>(largest);
}

}  // namespace nestor::modules
