#include <algorithm>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {

bool has_generator_rows(const Workload& workload) {
  return std::any_of(workload.pools.begin(), workload.pools.end(), [](const PoolWorkload& pool) {
    return pool.kind == PoolKind::generator &&
           std::find(pool.absent.begin(), pool.absent.end(), std::uint8_t{0}) != pool.absent.end();
  });
}

Schedule decoupled(const Workload& workload, const Dependencies& d, const Options& options) {
  const bool generates = has_generator_rows(workload);
  const std::int32_t all_forwards_first = workload.microbatches * workload.chunks;
  if (generates && options.extra_warmup.value_or(all_forwards_first) != all_forwards_first) {
    throw Error("extra_warmup", "decoupled runs every forward before the generator",
                "it fixes D at microbatches * chunks");
  }
  const std::int32_t D = generates ? all_forwards_first : options.extra_warmup.value_or(0);
  const LaneOrders llm = backbone(d, workload, D);
  OrderBuilder order(d, false);
  auto pools = [&](PoolKind kind, bool forwards, bool backwards) {
    for (std::int32_t m = 0; m < d.microbatches(); ++m) {
      for (std::int32_t i = 1; i < d.modules(); ++i) {
        if (workload.pool(ModuleId{i}).kind != kind) continue;
        if (forwards) order.append_if_exists(d.forward(ModuleId{i}, m));
        if (backwards) order.append_if_exists(d.backward(ModuleId{i}, m));
      }
    }
  };
  pools(PoolKind::encoder, true, false);
  if (generates) {
    for (const OperatorId op : llm.operators) {
      if (!d.is_backward(op)) order.append(op);
    }
    pools(PoolKind::generator, true, true);
    for (const OperatorId op : llm.operators) {
      if (d.is_backward(op)) order.append(op);
    }
  } else {
    for (const OperatorId op : llm.operators) order.append(op);
  }
  pools(PoolKind::encoder, false, true);
  return {order.take(), D};
}

}  // namespace nestor::scheduler::policies
