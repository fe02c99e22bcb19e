#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <nestor/scheduler/error.h>
#include <nestor/scheduler/partition.h>

namespace nestor::scheduler {
namespace {

void check(double cost, const std::string& where) {
  if (!std::isfinite(cost) || cost < 0)
    throw Error(where, "is " + std::to_string(cost), "costs are finite and not negative");
}

/// The prefix sums of a list of layers, with what belongs to the two ends.
struct Layers {
  std::vector<double> prefix;
  std::size_t parts;
  double before_first;
  double after_last;

  std::size_t count() const { return prefix.size() - 1; }
  /// Cost of the layers [from, to) as the part of this number. Falls with `from`, grows with `to`.
  double cost(std::size_t part, std::size_t from, std::size_t to) const {
    return prefix[to] - prefix[from] + (part == 0 ? before_first : 0) + (part + 1 == parts ? after_last : 0);
  }
};

/// best[n]: the smallest largest part of the first n layers in `part + 1` parts. Both terms of max(best[j], cost(j, n))
/// are monotone in j, in opposite directions, so the best j is found by bisection.
double smallest_largest_part(const Layers& layers) {
  const std::size_t n = layers.count();
  std::vector<double> best(n + 1, std::numeric_limits<double>::infinity()), next(n + 1);
  for (std::size_t to = 1; to <= n; ++to) best[to] = layers.cost(0, 0, to);
  for (std::size_t part = 1; part < layers.parts; ++part) {
    std::fill(next.begin(), next.end(), std::numeric_limits<double>::infinity());
    for (std::size_t to = part + 1; to <= n; ++to) {
      std::size_t low = part, high = to - 1;
      while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (best[middle] >= layers.cost(part, middle, to))
          high = middle;
        else
          low = middle + 1;
      }
      next[to] = std::max(best[low], layers.cost(part, low, to));
      if (low > part) next[to] = std::min(next[to], std::max(best[low - 1], layers.cost(part, low - 1, to)));
    }
    best.swap(next);
  }
  return best[n];
}

}  // namespace

std::vector<std::int32_t> partition_layers(std::span<const double> costs, std::int32_t stages, double before_first,
                                           double after_last) {
  if (stages < 1) throw Error("stages", "is " + std::to_string(stages), "at least 1");
  const std::size_t n = costs.size(), parts = static_cast<std::size_t>(stages);
  if (parts > n)
    throw Error("stages", std::to_string(stages) + " stages for " + std::to_string(n) + " layers",
                "every stage needs a layer: use fewer stages or chunks");
  check(before_first, "before_first");
  check(after_last, "after_last");
  Layers layers{{}, parts, before_first, after_last};
  layers.prefix.resize(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) {
    check(costs[i], "costs[" + std::to_string(i) + "]");
    layers.prefix[i + 1] = layers.prefix[i] + costs[i];
  }
  const double limit = smallest_largest_part(layers);

  // The smallest offset of each cut from which the parts behind it still fit: filled greedily from the end.
  std::vector<std::size_t> earliest(parts + 1, n);
  for (std::size_t part = parts; part-- > 1;) {
    std::size_t from = earliest[part + 1] - 1;
    while (from > part && layers.cost(part, from - 1, earliest[part + 1]) <= limit) --from;
    earliest[part] = from;
  }
  // Of the cuts within the limit the one nearest to an even share of what is left, so that no part is needlessly small.
  std::vector<std::int32_t> offsets{0};
  std::size_t from = 0;
  for (std::size_t part = 0; part + 1 < parts; ++part) {
    const double left = layers.prefix[n] - layers.prefix[from] + (part == 0 ? before_first : 0) + after_last;
    const double share = left / static_cast<double>(parts - part);
    std::size_t to = std::max(earliest[part + 1], from + 1);
    const std::size_t last = n - (parts - part - 1);
    while (to < last && layers.cost(part, from, to + 1) <= limit &&
           std::abs(layers.cost(part, from, to + 1) - share) < std::abs(layers.cost(part, from, to) - share))
      ++to;
    offsets.push_back(static_cast<std::int32_t>(to));
    from = to;
  }
  offsets.push_back(static_cast<std::int32_t>(n));
  return offsets;
}

}  // namespace nestor::scheduler
