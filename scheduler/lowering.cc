#include <algorithm>
#include <array>
#include <bit>

#include <nestor/scheduler/lowering.h>

namespace nestor::scheduler {
namespace {

/// For every operator those that need its output on another lane, in one array.
class CrossLaneConsumers {
 public:
  explicit CrossLaneConsumers(const Dependencies& d) : begin_(static_cast<std::size_t>(d.size()) + 2, 0) {
    each_edge(d, [&](OperatorId producer, OperatorId) { ++begin_[producer.index() + 2]; });
    for (std::size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    consumers_.resize(begin_.back());
    each_edge(d,
              [&](OperatorId producer, OperatorId consumer) { consumers_[begin_[producer.index() + 1]++] = consumer; });
  }
  std::span<const OperatorId> of(OperatorId op) const {
    return {consumers_.data() + begin_[op.index()], consumers_.data() + begin_[op.index() + 1]};
  }

 private:
  template <class Visit>
  static void each_edge(const Dependencies& d, Visit&& visit) {
    for (std::int32_t i = 0; i < d.size(); ++i) {
      const OperatorId op{i};
      if (!d.exists(op)) continue;
      for (const OperatorId need : d.needs(op)) {
        if (d.lane(need) != d.lane(op)) visit(need, op);
      }
    }
  }

  std::vector<std::uint32_t> begin_;  ///< shifted by one while it is filled
  std::vector<OperatorId> consumers_;
};

/// Stable sort by the bits of non-negative doubles, which order as the numbers do: linear, and most of its passes fall
/// away since times are multiples of a coarse grid.
template <class Item>
void sort_by_bits(std::vector<Item>& items) {
  constexpr int kDigit = 11;
  constexpr std::uint64_t kMask = (1u << kDigit) - 1;
  std::uint64_t varying = 0;
  for (const Item& item : items) varying |= item.bits ^ items.front().bits;
  std::vector<Item> sorted(items.size());
  for (int shift = 0; shift < 64; shift += kDigit) {
    if ((varying >> shift & kMask) == 0) continue;
    std::array<std::uint32_t, kMask + 2> begin{};
    for (const Item& item : items) ++begin[(item.bits >> shift & kMask) + 1];
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    for (const Item& item : items) sorted[begin[item.bits >> shift & kMask]++] = item;
    items.swap(sorted);
  }
}

/// Operators by the time they end; at one time in topological order.
std::vector<OperatorId> by_end(const Dependencies& d, const Times& times) {
  struct Item {
    std::uint64_t bits;
    OperatorId op;
  };
  std::vector<Item> items(d.count());
  for (std::int32_t i = 0; i < d.size(); ++i) {
    if (d.exists(OperatorId{i})) items[times.rank[i]] = {std::bit_cast<std::uint64_t>(times.end[i]), OperatorId{i}};
  }
  sort_by_bits(items);
  std::vector<OperatorId> order;
  order.reserve(items.size());
  for (const Item& item : items) order.push_back(item.op);
  return order;
}

/// A recomputation that costs nothing is a row all the same: without it activations would be kept.
bool recomputes(const Dependencies& d, OperatorId op) {
  return d.is_backward(op) && d.module_recomputes(d.module(op));
}

std::vector<std::uint8_t> lanes_with_parameters(const Workload& workload, std::int32_t lanes) {
  std::vector<std::uint8_t> holds(lanes, 0);
  for (LaneId lane : workload.llm.lanes) holds[lane.index()] = 1;
  for (const PoolWorkload& pool : workload.pools) {
    for (LaneId lane : pool.lanes) holds[lane.index()] = 1;
  }
  return holds;
}

}  // namespace

std::vector<Reduction> reductions_of(const Workload& workload, std::span<const Reduction> tied) {
  std::vector<Reduction> reductions;
  for (std::size_t i = 0; i < workload.pools.size(); ++i) {
    const PoolWorkload& pool = workload.pools[i];
    if (!pool.trainable) continue;
    std::vector<LaneId> lanes = pool.lanes;
    std::sort(lanes.begin(), lanes.end());
    lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
    if (lanes.size() > 1) reductions.push_back({ModuleId{static_cast<std::int64_t>(i) + 1}, std::move(lanes)});
  }
  reductions.insert(reductions.end(), tied.begin(), tied.end());
  return reductions;
}

OperatorTable lower(const Workload& workload, const Dependencies& d, const LaneOrders& orders, const Times& times,
                    std::vector<Reduction> reductions, std::int32_t lanes) {
  const CrossLaneConsumers consumers(d);
  const std::vector<std::uint8_t> updates = lanes_with_parameters(workload, lanes);
  OperatorTable table;
  table.reductions = std::move(reductions);
  auto& begin = table.lane_begin;
  begin.assign(static_cast<std::size_t>(lanes) + 1, 0);
  for (std::int32_t lane = 0; lane < orders.lanes(); ++lane) {
    for (const OperatorId op : orders.lane(LaneId{lane})) {
      begin[lane + 1] += recomputes(d, op) ? 2 : 1;
      for (const OperatorId consumer : consumers.of(op)) {
        ++begin[lane + 1];
        ++begin[d.lane(consumer).index() + 1];
      }
    }
  }
  for (const Reduction& reduction : table.reductions) {
    for (const LaneId lane : reduction.lanes) ++begin[lane.index() + 1];
  }
  for (std::int32_t lane = 0; lane < lanes; ++lane) begin[lane + 1] += begin[lane] + updates[lane];
  table.operators.resize(begin.back());
  std::vector<std::uint32_t> end(begin.begin(), begin.end() - 1);
  auto append = [&](LaneId lane) -> Operator& { return table.operators[end[lane.index()]++]; };

  std::vector<double> free(static_cast<std::size_t>(lanes), 0.0);  // when each lane's latest operator ended
  for (const OperatorId op : by_end(d, times)) {
    const LaneId lane = d.lane(op);
    Operator row = d.row(op);
    row.start = times.start[op.index()];
    row.end = times.end[op.index()];
    if (recomputes(d, op)) {
      Operator again = row;
      again.kind = OpKind::recompute;
      again.start = free[lane.index()];  // it waits for nothing, so it passes while the gradient is on its way
      again.end = again.start + d.recompute(op);
      row.start += d.recompute(op);
      append(lane) = again;
    }
    free[lane.index()] = row.end;
    append(lane) = row;
    for (const OperatorId consumer : consumers.of(op)) {
      Operator transfer = row;
      transfer.kind = OpKind::send;
      transfer.direction = row.kind == OpKind::forward ? Direction::activation : Direction::gradient;
      transfer.to_module = static_cast<std::int16_t>(d.module(consumer).value);
      transfer.to_stage = d.stage(consumer);
      transfer.peer = d.lane(consumer).value;
      transfer.start = row.end;
      transfer.end = row.end + d.transfer_seconds(op, consumer);
      append(lane) = transfer;
      transfer.kind = OpKind::recv;
      transfer.peer = lane.value;
      append(d.lane(consumer)) = transfer;
    }
  }
  Operator last;
  last.start = last.end = times.makespan;
  last.kind = OpKind::reduce;
  for (std::size_t i = 0; i < table.reductions.size(); ++i) {
    last.module = static_cast<std::int16_t>(table.reductions[i].module.value);
    last.reduction = static_cast<std::int32_t>(i);
    for (const LaneId lane : table.reductions[i].lanes) append(lane) = last;
  }
  last.kind = OpKind::update;
  last.module = 0;
  last.peer = -1;
  for (std::int32_t lane = 0; lane < lanes; ++lane) {
    if (updates[lane]) append(LaneId{lane}) = last;
  }
  return table;
}

}  // namespace nestor::scheduler
