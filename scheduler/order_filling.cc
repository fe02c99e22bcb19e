#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include <nestor/scheduler/order_filling.h>

namespace nestor::scheduler {
namespace {

constexpr std::int32_t kEncoderCap = 4;
constexpr std::int32_t kGeneratorCap = 2;
constexpr double kNever = std::numeric_limits<double>::infinity();

class Filling {
 public:
  Filling(const Workload& workload, const Dependencies& d, const std::vector<std::vector<GivenRow>>& lanes)
      : w_(workload), d_(d), given_(lanes), next_(lanes.size(), 0), free_(lanes.size(), 0), out_(lanes.size()) {
    ready_.assign(static_cast<std::size_t>(d.size()), kNever);
    forward_end_ = ready_;
    recomputed_.assign(static_cast<std::size_t>(d.size()), 0);
    find_missing();
  }

  Stuck run(std::vector<std::vector<GivenRow>>& lanes) {
    while (true) {
      for (std::size_t lane = 0; lane < given_.size(); ++lane) {
        while (free_[lane] <= now_ && start_one(lane)) {
        }
      }
      while (!times_.empty() && times_.top() <= now_) times_.pop();
      if (!times_.empty()) {
        now_ = times_.top();
      } else if (!force_one()) {
        break;
      }
    }
    for (std::size_t lane = 0; lane < given_.size(); ++lane) {
      if (next_[lane] < given_[lane].size()) return circle(lane);
    }
    lanes = std::move(out_);
    return {};
  }

 private:
  /// Pool operators that nobody named, of one member, in the order in which the LLM takes their microbatches.
  struct Member {
    std::size_t lane;
    std::int32_t cap, in_flight = 0;
    std::vector<OperatorId> forwards, backwards;
    std::size_t forward = 0, backward = 0;
  };

  void find_missing() {
    std::vector<std::uint8_t> named(static_cast<std::size_t>(d_.size()), 0);
    std::vector<std::size_t> place(static_cast<std::size_t>(d_.size()), 0);
    for (const auto& lane : given_) {
      for (std::size_t i = 0; i < lane.size(); ++i) {
        named[lane[i].op.index()] = 1;
        if (lane[i].row.kind != OpKind::recompute) place[lane[i].op.index()] = i;
      }
    }
    of_lane_.resize(given_.size());
    const std::int32_t last = d_.stages() - 1;
    for (std::int32_t i = 1; i < d_.modules(); ++i) {
      const PoolWorkload& pool = w_.pool(ModuleId{i});
      const bool encoder = pool.kind == PoolKind::encoder;
      const std::size_t first = members_.size();
      for (const LaneId lane : pool.lanes) {
        of_lane_[lane.index()].push_back(members_.size());
        members_.push_back(
            {lane.index(), pool.in_flight_cap.value_or(encoder ? kEncoderCap : kGeneratorCap), 0, {}, {}});
      }
      for (std::int32_t m = 0; m < d_.microbatches(); ++m) {
        Member& member = members_[first + pool.owner[m]];
        const OperatorId forward = d_.forward(ModuleId{i}, m), backward = d_.backward(ModuleId{i}, m);
        if (d_.exists(forward) && !named[forward.index()]) member.forwards.push_back(forward);
        if (d_.exists(backward) && !named[backward.index()]) member.backwards.push_back(backward);
      }
      const auto sort = [&](std::vector<OperatorId>& ops, auto taken_by) {
        std::stable_sort(ops.begin(), ops.end(), [&](OperatorId a, OperatorId b) {
          return place[taken_by(d_.microbatch(a)).index()] < place[taken_by(d_.microbatch(b)).index()];
        });
      };
      for (std::size_t k = first; k < members_.size(); ++k) {
        const auto first_forward = [&](std::int32_t m) { return d_.forward(kLlm, m, encoder ? 0 : last); };
        sort(members_[k].forwards, first_forward);
        sort(members_[k].backwards, [&](std::int32_t m) {
          const OperatorId backward = d_.backward(kLlm, m, 0);
          return encoder && d_.exists(backward) ? backward : first_forward(m);
        });
      }
    }
  }

  /// When all that the operator needs is on its lane; infinity while that is not known.
  double arrival(OperatorId op) const {
    double at = 0;
    for (const OperatorId need : d_.needs(op)) {
      at = std::max(at, ready_[need.index()] + d_.transfer_seconds(need, op));
    }
    return at;
  }

  double arrival(const GivenRow& given) const {
    switch (given.row.kind) {
      case OpKind::recompute:
        return forward_end_[given.op.index()];
      case OpKind::backward_weight:
        return ready_[given.op.index()];
      default:
        return given.row.kind != OpKind::forward && d_.module_recomputes(d_.module(given.op)) &&
                       !recomputed_[given.op.index()]
                   ? kNever
                   : arrival(given.op);
    }
  }

  bool start_one(std::size_t lane) {
    if (next_[lane] < given_[lane].size() && arrival(given_[lane][next_[lane]]) <= now_) {
      start(lane, given_[lane][next_[lane]++]);
      return true;
    }
    for (const bool backwards : {false, true}) {
      Member* best = nullptr;
      for (const std::size_t k : of_lane_[lane]) {
        Member& member = members_[k];
        const auto& ops = backwards ? member.backwards : member.forwards;
        const std::size_t at = backwards ? member.backward : member.forward;
        if (at == ops.size() || (!backwards && member.in_flight >= member.cap) || arrival(ops[at]) > now_) continue;
        if (!best || d_.microbatch(ops[at]) <
                         d_.microbatch((backwards ? best->backwards[best->backward] : best->forwards[best->forward])))
          best = &member;
      }
      if (best) {
        start(*best, backwards);
        return true;
      }
    }
    return false;
  }

  void start(Member& member, bool backward) {
    const OperatorId op = backward ? member.backwards[member.backward++] : member.forwards[member.forward++];
    if (backward) {
      --member.in_flight;
    } else if (d_.exists(d_.backward_of(op))) {
      ++member.in_flight;
    }
    GivenRow given{d_.row(op), op};
    if (backward && d_.module_recomputes(d_.module(op))) {
      GivenRow again = given;
      again.row.kind = OpKind::recompute;
      start(member.lane, again);
    }
    start(member.lane, given);
  }

  void start(std::size_t lane, const GivenRow& given) {
    const double again = d_.recompute(given.op), whole = d_.cost(given.op) - again;
    double seconds = whole;
    if (given.row.kind == OpKind::recompute) seconds = again;
    if (given.row.kind == OpKind::backward_input || given.row.kind == OpKind::backward_weight) seconds = whole / 2;
    const double end = std::max(free_[lane], now_) + seconds;
    free_[lane] = end;
    out_[lane].push_back(given);
    times_.push(end);
    if (given.row.kind == OpKind::recompute) {
      recomputed_[given.op.index()] = 1;
      return;
    }
    if (given.row.kind == OpKind::backward_weight) return;
    ready_[given.op.index()] = end;
    if (given.row.kind == OpKind::forward && d_.exists(d_.backward_of(given.op))) {
      forward_end_[d_.backward_of(given.op).index()] = end;
    }
    if (d_.free_transfers()) return;
    for (std::int32_t i = 0; i < d_.modules(); ++i) times_.push(end + d_.message_seconds(ModuleId{i}));
  }

  /// All lanes wait: a pool whose cap holds its next forward back may exceed it, since the given order forces that.
  bool force_one() {
    for (Member& member : members_) {
      if (member.forward == member.forwards.size() || member.in_flight < member.cap) continue;
      if (arrival(member.forwards[member.forward]) > now_) continue;
      ++member.cap;
      return true;
    }
    return false;
  }

  /// Follows what a lane waits for from lane to lane until one comes again: that one is part of the circle.
  Stuck circle(std::size_t lane) const {
    std::vector<std::uint8_t> seen(given_.size(), 0);
    Stuck found = stuck(lane);
    while (!seen[lane]) {
      seen[lane] = 1;
      found = stuck(lane);
      if (!found.waits_for.valid()) break;
      const std::size_t other = d_.lane(found.waits_for).index();
      if (next_[other] == given_[other].size()) break;
      lane = other;
    }
    return stuck(lane);
  }

  Stuck stuck(std::size_t lane) const {
    Stuck stuck{static_cast<std::int32_t>(lane), next_[lane], {}};
    const GivenRow& given = given_[lane][next_[lane]];
    if (given.row.kind != OpKind::recompute && given.row.kind != OpKind::backward_weight) {
      for (const OperatorId need : d_.needs(given.op)) {
        if (ready_[need.index()] == kNever) stuck.waits_for = need;
      }
    }
    return stuck;
  }

  const Workload& w_;
  const Dependencies& d_;
  const std::vector<std::vector<GivenRow>>& given_;
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::vector<std::vector<GivenRow>> out_;
  std::vector<double> ready_;        ///< by operator: when its output exists
  std::vector<double> forward_end_;  ///< by backward
  std::vector<std::uint8_t> recomputed_;
  std::vector<Member> members_;
  std::vector<std::vector<std::size_t>> of_lane_;
  std::priority_queue<double, std::vector<double>, std::greater<>> times_;
  double now_ = 0;
};

}  // namespace

Stuck fill_orders(const Workload& workload, const Dependencies& dependencies,
                  std::vector<std::vector<GivenRow>>& lanes) {
  const std::vector<std::vector<GivenRow>> given = lanes;
  return Filling(workload, dependencies, given).run(lanes);
}

}  // namespace nestor::scheduler
