#pragma once

#include <algorithm>
#include <random>
#include <string>

#include <nestor/scheduler/workload.h>

namespace nestor::tests {

/// A random workload of any shape the format allows (small enough to check many): pools of any size and place, skewed
/// lanes, absences, frozen modules, generators that read encoders, uneven stages, ragged M. Equal seeds, equal
/// workloads.
inline scheduler::Workload random_workload(std::uint32_t seed) {
  using namespace scheduler;
  std::mt19937 random(seed);
  auto upto = [&](std::uint32_t n) { return static_cast<std::int32_t>(random() % n); };
  auto chance = [&](std::uint32_t percent) { return random() % 100 < percent; };
  auto cost = [&] { return 0.25 * (1 + upto(16)); };
  const std::int32_t P = 1 + upto(6), V = 1 + upto(3), M = 1 + upto(20);
  Workload w = make_workload(P, V, M, cost(), cost());
  if (chance(30)) {
    for (double& c : w.llm.forward) c = cost() / V;
    for (double& c : w.llm.backward) c = cost() / V;
  }
  if (chance(20)) {
    for (double& c : w.llm.scale) c = cost();
  }
  w.llm.trainable = !chance(20);
  auto add_pool = [&](const std::string& name, PoolKind kind) {
    PoolWorkload pool = make_pool(w, name, kind, cost(), cost());
    if (chance(60)) {
      pool.lanes.resize(1 + upto(2 * P));
      const std::int32_t own_devices = chance(30) ? upto(4) : 0;
      for (LaneId& lane : pool.lanes) lane = LaneId{upto(P + own_devices)};
      for (std::int32_t m = 0; m < M; ++m) pool.owner[m] = m % static_cast<std::int32_t>(pool.lanes.size());
    }
    if (chance(20)) {
      for (auto& owner : pool.owner) owner = upto(static_cast<std::uint32_t>(pool.lanes.size()));
    }
    if (chance(30)) {
      for (auto& absent : pool.absent) absent = chance(40);
    }
    if (chance(20)) {
      for (double& c : pool.forward) c = cost();
      for (double& c : pool.backward) c = cost();
    }
    pool.trainable = !chance(25);
    return pool;
  };
  const std::int32_t encoders = upto(3), generators = upto(3);
  for (std::int32_t i = 0; i < encoders; ++i) {
    w.pools.push_back(add_pool("encoder" + std::to_string(i), PoolKind::encoder));
  }
  for (std::int32_t i = 0; i < generators; ++i) {
    PoolWorkload pool = add_pool("generator" + std::to_string(i), PoolKind::generator);
    for (std::int32_t e = 0; e < encoders; ++e) {
      if (chance(30)) pool.inputs.emplace_back(e + 1);
    }
    if (pool.inputs.size() > 1 && chance(30)) pool.inputs.erase(pool.inputs.begin());  // reads encoders alone
    w.pools.push_back(pool);
  }
  return w;
}

/// A shape for which nested promises decoupled's makespan: one member per lane, M a multiple of P, equal stages and
/// costs, nothing absent; modules may be frozen.
inline scheduler::Workload even_workload(std::uint32_t seed) {
  using namespace scheduler;
  std::mt19937 random(seed);
  auto upto = [&](std::uint32_t n) { return static_cast<std::int32_t>(random() % n); };
  auto cost = [&] { return 0.25 * (1 + upto(16)); };
  const std::int32_t P = 1 + upto(8), V = 1 << upto(3), M = P * (1 + upto(6));
  Workload w = make_workload(P, V, M, cost(), cost());
  w.llm.trainable = upto(5) > 0;
  if (upto(4) > 0) w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, cost(), cost()));
  if (upto(2) > 0) w.pools.push_back(make_pool(w, "image", PoolKind::generator, cost(), cost()));
  for (PoolWorkload& pool : w.pools) pool.trainable = upto(5) > 0;
  return w;
}

}  // namespace nestor::tests
