
#include <algorithm>
#include <cmath>

#include <nestor/scheduler/dependencies.h>

namespace nestor::scheduler {

Dependencies::Dependencies(const Workload& workload)
    : stages_(workload.model_stages()),
      microbatches_(workload.microbatches),
      modules_(static_cast<std::int32_t>(workload.pools.size()) + 1),
      lanes_(workload.lane_count()) {
  place(workload);
  measure_transfers(workload);
  add_recomputation(workload);
  set_grid();
  link(workload);
}

double Dependencies::on_grid(double seconds) const {
  return grid_ > 0 ? std::nearbyint(seconds / grid_) * grid_ : seconds;
}

OperatorId Dependencies::find(const Operator& row) const {
  if (row.kind != OpKind::forward && row.kind != OpKind::backward) return {};
  if (row.module < 0 || row.module >= modules_ || row.microbatch < 0 || row.microbatch >= microbatches_) return {};
  const ModuleId module{row.module};
  if (module == kLlm ? row.stage < 0 || row.stage >= stages_ : row.stage != -1) return {};
  const OperatorId op = row.kind == OpKind::forward ? forward(module, row.microbatch, row.stage)
                                                    : backward(module, row.microbatch, row.stage);
  return exists(op) ? op : OperatorId{};
}

Operator Dependencies::row(OperatorId op) const {
  Operator row;
  row.kind = is_backward(op) ? OpKind::backward : OpKind::forward;
  row.module = static_cast<std::int16_t>(module(op).value);
  row.microbatch = microbatch(op);
  row.stage = is_llm(op) ? within_llm(op) - row.microbatch * stages_ : -1;
  return row;
}

void Dependencies::place(const Workload& workload) {
  const std::size_t size =
      2 * static_cast<std::size_t>(microbatches_) * (static_cast<std::size_t>(stages_) + modules_ - 1);
  lane_.assign(size, -1);
  cost_.assign(size, 0);
  auto put = [&](OperatorId op, LaneId lane, double cost) {
    lane_[op.index()] = lane.value;
    cost_[op.index()] = cost;
    ++count_;
  };
  for (std::int32_t m = 0; m < microbatches_; ++m) {
    const bool learns = workload.has_backward(kLlm, MicrobatchId{m});
    for (std::int32_t s = 0; s < stages_; ++s) {
      put(forward(kLlm, m, s), workload.llm.lanes[s], workload.llm.forward[s] * workload.llm.scale[m]);
      if (learns) put(backward(kLlm, m, s), workload.llm.lanes[s], workload.llm.backward[s] * workload.llm.scale[m]);
    }
  }
  for (std::int32_t i = 1; i < modules_; ++i) {
    const ModuleId module{i};
    const PoolWorkload& pool = workload.pool(module);
    for (std::int32_t m = 0; m < microbatches_; ++m) {
      if (pool.absent[m]) continue;
      const LaneId lane = pool.lanes[pool.owner[m]];
      put(forward(module, m), lane, pool.forward[m]);
      if (workload.has_backward(module, MicrobatchId{m})) put(backward(module, m), lane, pool.backward[m]);
    }
  }
}

void Dependencies::measure_transfers(const Workload& workload) {
  const double rate = workload.transfer_bytes_per_second;
  free_transfers_ = workload.transfer_latency == 0 && rate == 0;
  auto measure = [&](std::int64_t bytes, bool is_encoder) {
    is_encoder_.push_back(is_encoder);
    message_bytes_.push_back(bytes);
    message_seconds_.push_back(workload.transfer_latency + (rate > 0 ? static_cast<double>(bytes) / rate : 0));
  };
  measure(workload.llm.message_bytes, false);
  for (const PoolWorkload& pool : workload.pools) measure(pool.message_bytes, pool.kind == PoolKind::encoder);
}

void Dependencies::add_recomputation(const Workload& workload) {
  for (std::int32_t i = 0; i < modules_; ++i) {
    const ModuleId module{i};
    module_recomputes_.push_back(module == kLlm ? workload.llm.recompute : workload.pool(module).recompute);
    if (!module_recomputes_.back()) continue;
    recompute_.resize(lane_.size(), 0);
    for (std::int32_t m = 0; m < microbatches_; ++m) {
      for (std::int32_t s = 0; s < (module == kLlm ? stages_ : 1); ++s) {
        const OperatorId op = backward(module, m, s);
        if (exists(op)) recompute_[op.index()] = cost_[forward(module, m, s).index()];
      }
    }
  }
}

void Dependencies::set_grid() {
  // No time of the step exceeds the sum of all costs and a transfer for each operator, since something of the two is
  // under way at any instant. A grid 2^51 times finer than that sum makes all times exact.
  const double longest = *std::max_element(message_seconds_.begin(), message_seconds_.end());
  double total = longest * count_;
  for (const double cost : cost_) total += cost;
  for (const double cost : recompute_) total += cost;
  if (total <= 0) return;
  int exponent = 0;
  std::frexp(total, &exponent);
  grid_ = std::ldexp(1.0, exponent - 51);
  for (double& cost : cost_) cost = on_grid(cost);
  for (std::size_t op = 0; op < recompute_.size(); ++op) {
    recompute_[op] = on_grid(recompute_[op]);
    cost_[op] += recompute_[op];
  }
  for (double& seconds : message_seconds_) seconds = on_grid(seconds);
}

void Dependencies::link(const Workload& workload) {
  std::vector<std::int32_t> encoders, generators;
  std::vector<std::uint8_t> reads_llm(workload.pools.size() + 1, 0);
  std::vector<std::vector<std::int32_t>> readers(workload.pools.size() + 1);  // generators that read an encoder
  std::size_t width = 0;
  for (std::int32_t i = 1; i < modules_; ++i) {
    const PoolWorkload& pool = workload.pool(ModuleId{i});
    (pool.kind == PoolKind::encoder ? encoders : generators).push_back(i);
    width += pool.inputs.size() + 2;
    for (ModuleId input : pool.inputs) {
      if (input == kLlm) {
        reads_llm[i] = 1;
      } else {
        readers[input.index()].push_back(i);
      }
    }
  }
  needs_begin_.reserve(lane_.size() + 1);
  needs_.reserve(static_cast<std::size_t>(microbatches_) * (3 * static_cast<std::size_t>(stages_) + 2 * width));
  auto need = [&](OperatorId op) {
    if (exists(op)) needs_.push_back(op);
  };
  auto open = [&](OperatorId op) {
    needs_begin_.push_back(static_cast<std::uint32_t>(needs_.size()));
    return exists(op);
  };
  const std::int32_t last = stages_ - 1;
  for (std::int32_t m = 0; m < microbatches_; ++m) {
    for (std::int32_t s = 0; s < stages_; ++s) {
      if (!open(forward(kLlm, m, s))) continue;
      if (s > 0) {
        need(forward(kLlm, m, s - 1));
      } else {
        for (std::int32_t e : encoders) need(forward(ModuleId{e}, m));
      }
    }
  }
  for (std::int32_t m = 0; m < microbatches_; ++m) {
    for (std::int32_t s = 0; s < stages_; ++s) {
      if (!open(backward(kLlm, m, s))) continue;
      need(forward(kLlm, m, s));
      if (s < last) {
        need(backward(kLlm, m, s + 1));
      } else {
        for (std::int32_t g : generators) {
          if (reads_llm[g]) need(backward(ModuleId{g}, m));
        }
      }
    }
  }
  for (std::int32_t i = 1; i < modules_; ++i) {
    const ModuleId module{i};
    const PoolWorkload& pool = workload.pool(module);
    for (std::int32_t m = 0; m < microbatches_; ++m) {
      if (!open(forward(module, m))) continue;
      for (ModuleId input : pool.inputs) need(forward(input, m, last));
    }
    for (std::int32_t m = 0; m < microbatches_; ++m) {
      if (!open(backward(module, m))) continue;
      need(forward(module, m));
      if (pool.kind == PoolKind::encoder) {
        need(backward(kLlm, m, 0));
        for (std::int32_t g : readers[i]) need(backward(ModuleId{g}, m));
      }
    }
  }
  needs_begin_.push_back(static_cast<std::uint32_t>(needs_.size()));
}

}  // namespace nestor::scheduler
