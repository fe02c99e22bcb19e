#include <algorithm>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/policies/policies.h>

namespace nestor::scheduler::policies {

Workload coupled_workload(const Workload& workload) {
  Workload resolved = workload;
  for (PoolWorkload& pool : resolved.pools) {
    pool.lanes = {pool.kind == PoolKind::encoder ? workload.llm.lanes.front() : workload.llm.lanes.back()};
    std::fill(pool.owner.begin(), pool.owner.end(), 0);
  }
  return resolved;
}

Schedule coupled(const Workload& workload, const Dependencies& d, const Options& options) {
  const std::int32_t D = options.extra_warmup.value_or(0);
  const LaneOrders llm = backbone(d, workload, D);
  OrderBuilder order(d, false);
  auto each_pool = [&](PoolKind kind, auto&& visit) {
    for (std::int32_t i = 1; i < d.modules(); ++i) {
      if (workload.pool(ModuleId{i}).kind == kind) visit(ModuleId{i});
    }
  };
  const std::int32_t last = d.stages() - 1;
  for (const OperatorId op : llm.operators) {
    const std::int32_t m = d.microbatch(op), stage = op.value % d.stages();
    if (!d.is_backward(op)) {
      if (stage == 0) each_pool(PoolKind::encoder, [&](ModuleId e) { order.append_if_exists(d.forward(e, m)); });
      order.append(op);
      if (stage == last) {
        each_pool(PoolKind::generator, [&](ModuleId g) {
          order.append_if_exists(d.forward(g, m));
          order.append_if_exists(d.backward(g, m));
        });
      }
    } else {
      order.append(op);
      if (stage == 0) each_pool(PoolKind::encoder, [&](ModuleId e) { order.append_if_exists(d.backward(e, m)); });
    }
  }
  return {order.take(), D};
}

}  // namespace nestor::scheduler::policies
