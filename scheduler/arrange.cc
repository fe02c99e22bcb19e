#include <algorithm>
#include <cmath>
#include <numeric>

#include <nestor/scheduler/arrange.h>

namespace nestor::scheduler {
namespace {

double cost_of(const PoolWorkload& pool, std::int32_t m) {
  return pool.absent[m] ? 0 : pool.forward[m] + pool.backward[m];
}

bool all_alike(const Workload& workload) {
  const auto constant = [](const auto& values) {
    return std::all_of(values.begin(), values.end(), [&](const auto& value) { return value == values.front(); });
  };
  return constant(workload.llm.scale) &&
         std::all_of(workload.pools.begin(), workload.pools.end(), [&](const auto& pool) {
           return constant(pool.forward) && constant(pool.backward) && constant(pool.absent);
         });
}

template <class T>
void permute(std::vector<T>& values, const std::vector<std::int32_t>& order) {
  std::vector<T> old = std::move(values);
  values.clear();
  values.reserve(old.size());
  for (const std::int32_t m : order) values.push_back(old[m]);
}

Arrangement reordered(const Workload& workload, std::vector<std::int32_t> order) {
  Arrangement result{workload, std::move(order)};
  permute(result.workload.llm.scale, result.order);
  for (PoolWorkload& pool : result.workload.pools) {
    permute(pool.forward, result.order);
    permute(pool.backward, result.order);
    permute(pool.absent, result.order);
    permute(pool.owner, result.order);
  }
  return result;
}

/// Gives each round's microbatches to the pool's members, one each: the costliest to the lane with the least work.
void balance_owners(Workload& workload) {
  std::vector<double> load(workload.lane_count(), 0);  // seconds of pool work so far, by lane
  for (PoolWorkload& pool : workload.pools) {
    const auto members = static_cast<std::int32_t>(pool.lanes.size());
    std::vector<std::int32_t> round, free(members);
    const auto close_round = [&] {
      std::iota(free.begin(), free.end(), 0);
      std::stable_sort(free.begin(), free.end(), [&](std::int32_t a, std::int32_t b) {
        return load[pool.lanes[a].index()] < load[pool.lanes[b].index()];
      });
      std::stable_sort(round.begin(), round.end(),
                       [&](std::int32_t a, std::int32_t b) { return cost_of(pool, a) > cost_of(pool, b); });
      for (std::size_t i = 0; i < round.size(); ++i) {
        if (!pool.owner_given) pool.owner[round[i]] = free[i];
        load[pool.lanes[pool.owner[round[i]]].index()] += cost_of(pool, round[i]);
      }
      round.clear();
    };
    for (std::int32_t m = 0; m < workload.microbatches; ++m) {
      if (pool.absent[m]) continue;
      round.push_back(m);
      if (static_cast<std::int32_t>(round.size()) == members) close_round();
    }
    close_round();
  }
}

/// Ascending, then descending, round by round: like costs still share a round, and the costly ones, whose pauses are
/// the longest, stand in the middle where the pipeline is full. What is left over of the cheapest comes last.
std::vector<std::int32_t> up_and_down(const std::vector<std::int32_t>& ascending, std::int32_t round) {
  const auto microbatches = static_cast<std::int32_t>(ascending.size());
  const std::int32_t left_over = microbatches % round;
  std::vector<std::int32_t> order;
  const auto add_round = [&](std::int32_t begin) {
    order.insert(order.end(), ascending.begin() + begin, ascending.begin() + begin + round);
  };
  const std::int32_t rounds = microbatches / round;
  for (std::int32_t k = 0; k < rounds; k += 2) add_round(left_over + k * round);
  for (std::int32_t k = rounds / 2 * 2 - 1; k > 0; k -= 2) add_round(left_over + k * round);
  order.insert(order.end(), ascending.begin(), ascending.begin() + left_over);
  return order;
}

}  // namespace

std::vector<Arrangement> arrangements(const Workload& workload) {
  if (all_alike(workload)) return {{workload, {}}};

  const std::int32_t M = workload.microbatches;
  std::vector<double> encoders(M, 0), generators(M, 0);
  std::int32_t round = workload.stages;
  bool encodes = false, generates = false;
  for (const PoolWorkload& pool : workload.pools) {
    auto& costs = pool.kind == PoolKind::encoder ? encoders : generators;
    (pool.kind == PoolKind::encoder ? encodes : generates) = true;
    for (std::int32_t m = 0; m < M; ++m) costs[m] += cost_of(pool, m);
    round = std::max(round, static_cast<std::int32_t>(pool.lanes.size()));
  }
  std::vector<std::int32_t> given(M);
  std::iota(given.begin(), given.end(), 0);
  std::vector<Arrangement> result;
  const auto add = [&](std::vector<std::int32_t> order) {
    Arrangement arrangement = order == given ? Arrangement{workload, {}} : reordered(workload, std::move(order));
    balance_owners(arrangement.workload);
    result.push_back(std::move(arrangement));
  };
  const auto sorted = [&](const std::vector<double>& costs, bool descending) {
    std::vector<std::int32_t> order = given;
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return descending ? costs[a] > costs[b] : costs[a] < costs[b];
    });
    return order;
  };
  add(given);
  if (encodes) add(sorted(encoders, true));
  if (!generates) return result;
  const std::vector<std::int32_t> ascending = sorted(generators, false);
  if (encodes) {  // generators alike in blocks of about sqrt(rounds) rounds, encoders alike within a block
    const double rounds = static_cast<double>(M) / round;
    const std::int64_t block = std::max<std::int64_t>(1, std::llround(std::sqrt(rounds))) * round;
    std::vector<std::int32_t> two_level = ascending;
    for (std::int64_t begin = 0; begin < M; begin += block) {
      std::stable_sort(two_level.begin() + begin, two_level.begin() + std::min<std::int64_t>(M, begin + block),
                       [&](std::int32_t a, std::int32_t b) { return encoders[a] < encoders[b]; });
    }
    add(std::move(two_level));
  }
  add(up_and_down(ascending, round));
  add(ascending);
  return result;
}

}  // namespace nestor::scheduler
