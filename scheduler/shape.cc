#include <algorithm>
#include <numeric>

#include <nestor/scheduler/shape.h>

namespace nestor::scheduler {
namespace {

template <class T>
std::vector<T> cycled(const std::vector<T>& values, std::int32_t count) {
  std::vector<T> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(values[static_cast<std::size_t>(i) % values.size()]);
  return out;
}

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Lanes of a pool under the shape. `next_own` is the next lane that is nobody's.
std::vector<LaneId> place(const PoolWorkload& pool, const Workload& old, const Shape& shape, std::int32_t wanted,
                          std::int32_t& next_own) {
  const bool was_own =
      std::all_of(pool.lanes.begin(), pool.lanes.end(), [&](LaneId lane) { return lane.value >= old.stages; });
  const bool own = shape.own_devices.value_or(was_own);
  if (shape.stages == old.stages && wanted == 0 && own == was_own) return pool.lanes;
  const auto had = static_cast<std::int32_t>(pool.lanes.size());
  const std::int32_t size = wanted > 0 ? wanted : !was_own && had == old.stages ? shape.stages : had;
  std::vector<LaneId> lanes;
  for (std::int32_t i = 0; i < size; ++i) lanes.emplace_back(own ? next_own++ : i % shape.stages);
  return lanes;
}

}  // namespace

Workload reshape(const Workload& old, const Shape& shape) {
  Workload w = make_workload(shape.stages, shape.chunks, shape.microbatches, total(old.llm.forward) / shape.stages,
                             total(old.llm.backward) / shape.stages);
  const bool same_stages = shape.stages == old.stages && shape.chunks == old.chunks;
  LlmWorkload llm = old.llm;
  if (!same_stages) {
    llm.forward = w.llm.forward;
    llm.backward = w.llm.backward;
    llm.lanes = w.llm.lanes;
    llm.stash_bytes = (old.llm.stash_bytes * old.model_stages() + w.model_stages() - 1) / w.model_stages();
  }
  llm.scale = cycled(old.llm.scale, shape.microbatches);
  llm.recompute |= shape.recompute;
  w.llm = std::move(llm);
  std::int32_t next_own = shape.stages;
  for (std::size_t p = 0; p < old.pools.size(); ++p) {
    PoolWorkload pool = old.pools[p];
    const std::int32_t wanted = p < shape.pool_sizes.size() ? shape.pool_sizes[p] : 0;
    const std::size_t had = pool.lanes.size();
    pool.lanes = place(pool, old, shape, wanted, next_own);
    pool.forward = cycled(pool.forward, shape.microbatches);
    pool.backward = cycled(pool.backward, shape.microbatches);
    pool.absent = cycled(pool.absent, shape.microbatches);
    pool.owner_given = pool.owner_given && had == pool.lanes.size();
    pool.owner = cycled(pool.owner, shape.microbatches);
    if (!pool.owner_given) {
      for (std::int32_t m = 0; m < shape.microbatches; ++m) {
        pool.owner[m] = m % static_cast<std::int32_t>(pool.lanes.size());
      }
    }
    pool.recompute |= shape.recompute;
    w.pools.push_back(std::move(pool));
  }
  w.transfer_latency = old.transfer_latency;
  w.transfer_bytes_per_second = old.transfer_bytes_per_second;
  w.memory_bytes_per_lane = old.memory_bytes_per_lane;
  if (!old.resident_bytes.empty()) {  // what is where is not known for another shape: the most of any lane
    const std::int64_t most = *std::max_element(old.resident_bytes.begin(), old.resident_bytes.end());
    w.resident_bytes = old.resident_bytes;
    if (!same_stages || w.lane_count() != old.lane_count()) w.resident_bytes.assign(w.lane_count(), most);
  }
  validate(w, "workload");
  return w;
}

}  // namespace nestor::scheduler
