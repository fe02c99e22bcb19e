#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <nestor/scheduler/plan.h>

namespace nestor::tests {

/// A shape of pipeline and pools drawn at random, equal costs of all microbatches: pools smaller or larger than the
/// pipeline, lanes with several members, own devices, uneven stages, up to two encoders and two generators, frozen
/// modules, any M. With `absences` a third of the rows of every pool is missing.
inline scheduler::Workload skewed_workload(std::uint64_t seed, bool absences) {
  using namespace scheduler;
  std::mt19937_64 random(seed);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(low +
                                     static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1)));
  };
  const auto cost = [&] { return 0.25 * between(1, 20); };
  const std::int32_t P = between(1, 8), V = between(1, 3), M = between(1, 40);
  const double forward = cost(), backward = cost();
  Workload w = make_workload(P, V, M, forward, backward);
  for (auto* costs : {&w.llm.forward, &w.llm.backward}) {
    if (between(0, 2) > 0) continue;
    for (double& c : *costs) c *= 0.5 + 0.125 * between(0, 8);
  }
  std::int32_t encoders = between(0, 2), generators = between(0, 2);
  if (encoders + generators == 0) encoders = 1;
  const auto add = [&](PoolKind kind, std::int32_t i) {
    const double pool_forward = cost(), pool_backward = cost();
    PoolWorkload pool = make_pool(w, (kind == PoolKind::encoder ? "encoder" : "generator") + std::to_string(i), kind,
                                  pool_forward, pool_backward);
    const std::int32_t members = between(1, 2 * P), mode = between(0, 3);
    pool.lanes.clear();
    for (std::int32_t k = 0; k < members; ++k) {
      const std::int32_t lane = mode == 0   ? k % P               // evenly over the pipeline, wrapping around
                                : mode == 1 ? between(0, P - 1)   // anywhere on it, several on a lane
                                : mode == 2 ? P + k               // on devices of their own
                                            : between(0, P + 2);  // some here, some there
      pool.lanes.emplace_back(lane);
    }
    for (std::int32_t m = 0; m < M; ++m) pool.owner[m] = m % members;
    if (kind == PoolKind::generator) {
      pool.inputs = {kLlm};
      for (std::int32_t e = 0; e < encoders; ++e) {
        if (between(0, 3) == 0) pool.inputs.emplace_back(e + 1);
      }
    }
    if (between(0, 5) == 0) pool.trainable = false;
    if (absences) {
      for (auto& absent : pool.absent) absent = between(0, 2) == 0;
    }
    w.pools.push_back(std::move(pool));
  };
  for (std::int32_t i = 0; i < encoders; ++i) add(PoolKind::encoder, i);
  for (std::int32_t i = 0; i < generators; ++i) add(PoolKind::generator, i);
  if (between(0, 7) == 0) w.llm.trainable = false;
  return w;
}

/// Real data's spread: pool costs of each microbatch log-normal (sigma 0.6, mean 1) times the golden costs, one draw
/// for the encoder and one for the generator.
inline scheduler::Workload log_normal_workload(std::int32_t P, std::int32_t V, std::int32_t M, bool generator,
                                               std::uint64_t seed) {
  using namespace scheduler;
  constexpr double kSigma = 0.6, kPi = 3.14159265358979323846;
  std::mt19937_64 random(seed);
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto factor = [&] {
    const double radius = std::sqrt(-2 * std::log(unit() + 0x1p-60)), angle = 2 * kPi * unit();
    return std::exp(kSigma * radius * std::cos(angle) - kSigma * kSigma / 2);
  };
  Workload w = make_workload(P, V, M, 1, 2);
  w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1.5, 3));
  if (generator) w.pools.push_back(make_pool(w, "image", PoolKind::generator, 2, 4));
  for (std::int32_t m = 0; m < M; ++m) {
    for (PoolWorkload& pool : w.pools) {
      const double k = factor();
      pool.forward[m] *= k;
      pool.backward[m] *= k;
    }
  }
  return w;
}

/// Mean work of a lane plus the backbone's own bubble (P-1)(F+B)/V: what a schedule of unequal microbatches is
/// measured against, seconds.
inline double mean_work_bound(const scheduler::Workload& w) {
  double work = 0, stage = 0;
  for (std::size_t s = 0; s < w.llm.forward.size(); ++s) stage += w.llm.forward[s] + w.llm.backward[s];
  for (const double scale : w.llm.scale) work += scale * stage;
  for (const auto& pool : w.pools) {
    for (std::int32_t m = 0; m < w.microbatches; ++m) {
      if (!pool.absent[m]) work += pool.forward[m] + pool.backward[m];
    }
  }
  return work / w.stages + (w.stages - 1) * (stage / w.stages) / w.chunks;
}

/// Peak microbatches that each member of each pool holds, [pool][member], counted from the table.
inline std::vector<std::vector<std::int32_t>> held_by_members(const scheduler::Plan& plan) {
  using namespace scheduler;
  const Workload& w = plan.workload;
  std::vector<std::vector<std::int32_t>> held, peak;
  for (const PoolWorkload& pool : w.pools) held.emplace_back(pool.lanes.size(), 0);
  peak = held;
  for (const Operator& op : plan.table.operators) {
    if (!op.is_compute() || op.module == 0) continue;
    const std::size_t pool = static_cast<std::size_t>(op.module) - 1;
    const auto owner = static_cast<std::size_t>(w.pools[pool].owner[op.microbatch]);
    if (op.kind == OpKind::backward) {
      --held[pool][owner];
    } else if (w.has_backward(ModuleId{op.module}, MicrobatchId{op.microbatch})) {
      peak[pool][owner] = std::max(peak[pool][owner], ++held[pool][owner]);
    }
  }
  return peak;
}

/// The largest of those over 4 * ceil(P / size), the bound of `nested` for any pool: at most 1 where it is kept.
inline double share_of_member_bound(const scheduler::Plan& plan) {
  double share = 0;
  const auto peaks = held_by_members(plan);
  for (std::size_t p = 0; p < peaks.size(); ++p) {
    const auto size = static_cast<std::int32_t>(peaks[p].size());
    const std::int32_t bound = 4 * ((plan.workload.stages + size - 1) / size);
    for (const std::int32_t peak : peaks[p]) share = std::max(share, static_cast<double>(peak) / bound);
  }
  return share;
}

}  // namespace nestor::tests
