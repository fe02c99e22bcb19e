#include <algorithm>

#include <nestor/scheduler/earliest_times.h>
#include <nestor/scheduler/improve.h>

namespace nestor::scheduler {
namespace {

constexpr std::int32_t kReach = 6;  // places; farther moves are reached in several steps along a plateau

/// xorshift64* (Marsaglia, 2003; Vigna, 2016).
class Moves {
 public:
  std::uint64_t below(std::uint64_t bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545f4914f6cdd1dull >> 32) % bound;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15ull;
};

class CapCheck {
 public:
  CapCheck(const Dependencies& d, const Workload& workload, const std::vector<std::int32_t>& caps)
      : d_(d), workload_(workload), caps_(caps) {
    for (const PoolWorkload& pool : workload.pools) in_flight_.emplace_back(pool.lanes.size(), 0);
  }

  bool holds(std::span<const OperatorId> lane) {
    for (auto& pool : in_flight_) std::fill(pool.begin(), pool.end(), 0);
    for (const OperatorId op : lane) {
      const ModuleId module = d_.module(op);
      if (module == kLlm) continue;
      const std::size_t p = module.index() - 1;
      const std::int32_t microbatch = d_.microbatch(op);
      std::int32_t& held = in_flight_[p][workload_.pools[p].owner[microbatch]];
      if (d_.is_backward(op)) {
        --held;
      } else if (d_.exists(d_.backward(module, microbatch)) && ++held > caps_[p]) {
        return false;
      }
    }
    return true;
  }

 private:
  const Dependencies& d_;
  const Workload& workload_;
  const std::vector<std::int32_t>& caps_;
  std::vector<std::vector<std::int32_t>> in_flight_;
};

/// What a move must not make worse: the makespan, then how late the lanes end. The second gives a plateau a slope: room
/// gained on one lane is what lets a later move gain on all.
struct Length {
  double makespan, ends = 0;
  Length(const Times& times, const LaneOrders& orders) : makespan(times.makespan) {
    for (std::int32_t lane = 0; lane < orders.lanes(); ++lane) {
      const auto row = orders.lane(LaneId{lane});
      if (!row.empty()) ends += times.end[row.back().index()];
    }
  }
  friend auto operator<=>(const Length&, const Length&) = default;
};

}  // namespace

double improve(const Dependencies& d, const Workload& workload, const std::vector<std::int32_t>& caps,
               std::int64_t work, LaneOrders& orders) {
  Times times = earliest_times(d, orders);
  CapCheck check(d, workload, caps);
  std::vector<std::uint32_t> movable;  // places of modality operators
  for (std::uint32_t i = 0; i < orders.operators.size(); ++i) {
    if (d.module(orders.operators[i]) != kLlm) movable.push_back(i);
  }
  if (movable.empty() || !times.complete(orders)) return times.makespan;
  Length best(times, orders);

  Moves random;
  for (std::int64_t tries = work / static_cast<std::int64_t>(orders.operators.size()); tries > 0; --tries) {
    const std::uint32_t from = movable[random.below(movable.size())];
    const auto lane = std::upper_bound(orders.lane_begin.begin(), orders.lane_begin.end(), from) - 1;
    const auto first = static_cast<std::int64_t>(*lane), last = static_cast<std::int64_t>(*(lane + 1)) - 1;
    const std::int64_t shift = static_cast<std::int64_t>(random.below(2 * kReach)) - kReach;
    const std::int64_t to = std::clamp<std::int64_t>(from + (shift >= 0 ? shift + 1 : shift), first, last);
    if (to == from || d.module(orders.operators[from]) == kLlm) continue;
    auto begin = orders.operators.begin();
    const auto move = [&](std::int64_t a, std::int64_t b) {
      if (a < b) std::rotate(begin + a, begin + a + 1, begin + b + 1);
      if (a > b) std::rotate(begin + b, begin + a, begin + a + 1);
    };
    move(from, to);
    bool keep = check.holds(orders.lane(LaneId{lane - orders.lane_begin.begin()}));
    if (keep) {
      times = earliest_times(d, orders);
      const Length length(times, orders);
      keep = times.complete(orders) && length <= best;
      if (keep) best = length;
    }
    if (!keep) {
      move(to, from);
      continue;
    }
    // The places between the two have shifted by one; only which of them are modality operators matters.
    const auto [low, high] = std::minmax({std::int64_t{from}, to});  // by value: the two-argument form dangles
    std::erase_if(movable, [low = low, high = high](std::uint32_t i) { return i >= low && i <= high; });
    for (std::int64_t i = low; i <= high; ++i) {
      if (d.module(orders.operators[i]) != kLlm) movable.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return best.makespan;
}

}  // namespace nestor::scheduler
