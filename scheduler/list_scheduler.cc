#include <algorithm>
#include <functional>
#include <limits>

#include <nestor/scheduler/list_scheduler.h>

namespace nestor::scheduler {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int32_t kNoMicrobatch = std::numeric_limits<std::int32_t>::max();

void push(std::vector<std::int32_t>& heap, std::int32_t microbatch) {
  heap.push_back(microbatch);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

void remove_top(std::vector<std::int32_t>& heap) {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  heap.pop_back();
}

}  // namespace

ListScheduler::ListScheduler(const Dependencies& dependencies, const Workload& workload) : deps_(dependencies) {
  const std::int32_t size = deps_.size();
  readers_begin_.assign(size + 1, 0);
  for (std::int32_t i = 0; i < size; ++i) {
    for (OperatorId need : deps_.needs(OperatorId{i})) ++readers_begin_[need.index() + 1];
  }
  for (std::int32_t i = 0; i < size; ++i) readers_begin_[i + 1] += readers_begin_[i];
  readers_.resize(readers_begin_[size]);
  std::vector<std::uint32_t> fill(readers_begin_.begin(), readers_begin_.end() - 1);
  for (std::int32_t i = 0; i < size; ++i) {
    for (OperatorId need : deps_.needs(OperatorId{i})) readers_[fill[need.index()]++] = OperatorId{i};
  }

  member_.assign(size, -1);
  round_.assign(size, -1);
  lane_members_.resize(deps_.lanes());
  round_size_.resize(workload.pools.size());
  for (std::size_t p = 0; p < workload.pools.size(); ++p) {
    const PoolWorkload& pool = workload.pools[p];
    const ModuleId module{static_cast<std::int64_t>(p) + 1};
    const auto first = static_cast<std::int32_t>(members_.size());
    const auto members = static_cast<std::int32_t>(pool.lanes.size());
    for (std::int32_t i = 0; i < members; ++i) {
      Member member;
      member.pool = static_cast<std::int32_t>(p);
      member.lane = pool.lanes[i].value;
      member.generator = pool.kind == PoolKind::generator;
      lane_members_[member.lane].push_back(first + i);
      members_.push_back(std::move(member));
    }
    std::int32_t rank = 0;
    for (std::int32_t m = 0; m < deps_.microbatches(); ++m) {
      if (pool.absent[m]) continue;
      member_[deps_.forward(module, m).index()] = member_[deps_.backward(module, m).index()] = first + pool.owner[m];
      round_[deps_.forward(module, m).index()] = rank / members;
      if (rank++ % members == 0) round_size_[p].push_back(0);
      ++round_size_[p].back();
    }
  }
}

void ListScheduler::reset(const std::vector<std::int32_t>& caps) {
  for (Member& member : members_) {
    member.cap = caps[member.pool];
    member.in_flight = 0;
    member.forward.clear();
    member.backward.clear();
    member.held.clear();
  }
  round_left_ = round_size_;
  unmet_.assign(deps_.size(), 0);
  end_.assign(deps_.size(), kNever);
  next_llm_.assign(deps_.lanes(), 0);
  busy_.assign(deps_.lanes(), 0);
  awake_.assign(deps_.lanes(), 0);
  wake_list_.clear();
  events_.clear();
  stage0_next_ = 0;
}

ListScheduler::Result ListScheduler::run(const LaneOrders& llm, const std::vector<std::int32_t>& caps,
                                         const ListRules& rules) {
  rules_ = rules;
  llm_ = &llm;
  order_.emplace(deps_, false);
  reset(caps);
  for (std::int32_t i = 0; i < deps_.size(); ++i) {
    const OperatorId op{i};
    if (!deps_.exists(op)) continue;
    unmet_[i] = static_cast<std::uint8_t>(deps_.needs(op).size());
    if (unmet_[i] == 0) became_ready(op);
  }
  for (std::int32_t lane = 0; lane < deps_.lanes(); ++lane) wake(lane);

  double now = 0;
  std::int32_t left = deps_.count();
  for (;;) {
    // Lanes wake in ascending order at each instant; starting an operator may wake further ones at the same instant.
    for (std::size_t i = 0; i < wake_list_.size(); ++i) {
      const std::int32_t lane = wake_list_[i];
      awake_[lane] = 0;
      if (busy_[lane]) continue;
      if (const OperatorId op = pick(lane, now); op.valid()) start(lane, op, now);
    }
    wake_list_.clear();
    if (events_.empty()) return {order_->take(), left == 0 ? now : kNever};
    now = events_.front().time;
    while (!events_.empty() && events_.front().time == now) {
      const Event event = events_.front();
      std::pop_heap(events_.begin(), events_.end(), std::greater<>());
      events_.pop_back();
      if (event.arrival) {
        arrive(event.op);
        continue;
      }
      const std::int32_t lane = deps_.lane(event.op).value;
      busy_[lane] = 0;
      wake(lane);
      finish(event.op, now);
      --left;
    }
    std::sort(wake_list_.begin(), wake_list_.end());
  }
}

void ListScheduler::wake(std::int32_t lane) {
  if (awake_[lane]) return;
  awake_[lane] = 1;
  wake_list_.push_back(lane);
}

/// How long the lane has nothing of the LLM to do: until its next LLM operator's needs end, as far as they run.
double ListScheduler::slack(std::int32_t lane, double now) const {
  const auto order = llm_->lane(LaneId{lane});
  if (next_llm_[lane] == order.size()) return kNever;
  double ready = now;
  const OperatorId next = order[next_llm_[lane]];
  for (OperatorId need : deps_.needs(next)) {
    ready = std::max(ready, end_[need.index()] + deps_.transfer_seconds(need, next));
  }
  return ready - now;
}

OperatorId ListScheduler::pick(std::int32_t lane, double now) {
  // Of several members on the lane the one with the lowest microbatch goes first: the LLM's order waits for it.
  OperatorId relief, backward, urgent, forward;
  std::int32_t lowest[4] = {kNoMicrobatch, kNoMicrobatch, kNoMicrobatch, kNoMicrobatch};
  const auto offer = [](OperatorId& best, std::int32_t& least, OperatorId op, std::int32_t microbatch) {
    if (microbatch >= least) return;
    best = op;
    least = microbatch;
  };
  for (std::int32_t i : lane_members_[lane]) {
    const Member& member = members_[i];
    const ModuleId module{member.pool + 1};
    const bool forwards = !member.forward.empty(), backwards = !member.backward.empty();
    const std::int32_t m = forwards ? member.forward.front() : 0, b = backwards ? member.backward.front() : 0;
    if (member.generator) {
      if (backwards) offer(backward, lowest[1], deps_.backward(module, b), b);
      if (rules_.rounds && forwards && member.in_flight < member.cap)
        offer(forward, lowest[3], deps_.forward(module, m), m);
    } else {
      if (backwards && forwards && member.cap - member.in_flight <= rules_.relief)
        offer(relief, lowest[0], deps_.backward(module, b), b);
      if (forwards && member.in_flight < member.cap && m < stage0_next_ + rules_.lookahead)
        offer(urgent, lowest[2], deps_.forward(module, m), m);
    }
  }
  for (const OperatorId op : {relief, urgent, backward, forward}) {
    if (op.valid()) return op;
  }
  const auto order = llm_->lane(LaneId{lane});
  if (next_llm_[lane] < order.size() && unmet_[order[next_llm_[lane]].index()] == 0) return order[next_llm_[lane]];
  return pick_waiting(lane, slack(lane, now));
}

/// The modality operator for an idle window of `slack` seconds; invalid where none fits.
OperatorId ListScheduler::pick_waiting(std::int32_t lane, double slack) {
  const auto fits = [&](double cost) { return slack >= rules_.patience * cost; };
  OperatorId forward, backward, generator;
  for (std::int32_t i : lane_members_[lane]) {
    const Member& member = members_[i];
    const ModuleId module{member.pool + 1};
    const bool room = member.in_flight < member.cap;
    if (member.generator) {
      const bool held = member.forward.empty() && rules_.early && !member.held.empty();
      if (!room || (member.forward.empty() && !held)) continue;
      const OperatorId op = deps_.forward(module, held ? member.held.front() : member.forward.front());
      const OperatorId back = deps_.backward(module, deps_.microbatch(op));
      if (fits(deps_.cost(op) + (deps_.exists(back) ? deps_.cost(back) : 0)) &&
          (!generator.valid() || deps_.microbatch(op) < deps_.microbatch(generator)))
        generator = op;
    } else {
      if (room && !member.forward.empty()) {
        const OperatorId op = deps_.forward(module, member.forward.front());
        if (fits(deps_.cost(op)) && (!forward.valid() || deps_.microbatch(op) < deps_.microbatch(forward)))
          forward = op;
      }
      if (!member.backward.empty()) {
        const OperatorId op = deps_.backward(module, member.backward.front());
        if (fits(deps_.cost(op)) && (!backward.valid() || deps_.microbatch(op) < deps_.microbatch(backward)))
          backward = op;
      }
    }
  }
  if (generator.valid()) return generator;
  if (rules_.forward_first) return forward.valid() ? forward : backward;
  return backward.valid() ? backward : forward;
}

void ListScheduler::start(std::int32_t lane, OperatorId op, double now) {
  busy_[lane] = 1;
  end_[op.index()] = now + deps_.cost(op);
  push_event({end_[op.index()], op, false});
  order_->append(op);

  const std::int32_t microbatch = deps_.microbatch(op);
  if (member_[op.index()] < 0) {
    ++next_llm_[lane];
    if (op == deps_.forward(kLlm, microbatch, 0) && microbatch >= stage0_next_) {
      stage0_next_ = microbatch + 1;  // encoder forwards may have become urgent
      if (rules_.lookahead > 0) {
        for (std::int32_t other = 0; other < deps_.lanes(); ++other) wake(other);
      }
    }
    return;
  }
  Member& member = member_of(op);
  if (deps_.is_backward(op)) {
    remove_top(member.backward);
    return;
  }
  if (!member.forward.empty() && member.forward.front() == microbatch) {
    remove_top(member.forward);
  } else {
    member.held.erase(member.held.begin());
  }
  if (deps_.exists(deps_.backward(ModuleId{member.pool + 1}, microbatch))) ++member.in_flight;
}

void ListScheduler::push_event(const Event& event) {
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void ListScheduler::finish(OperatorId op, double now) {
  if (member_[op.index()] >= 0 && deps_.is_backward(op)) --member_of(op).in_flight;
  for (std::uint32_t i = readers_begin_[op.index()]; i < readers_begin_[op.index() + 1]; ++i) {
    const OperatorId reader = readers_[i];
    const double transfer = deps_.transfer_seconds(op, reader);
    if (transfer > 0) {
      push_event({now + transfer, reader, true});
    } else {
      arrive(reader);
    }
  }
}

void ListScheduler::arrive(OperatorId reader) {
  wake(deps_.lane(reader).value);
  if (--unmet_[reader.index()] == 0) became_ready(reader);
}

void ListScheduler::became_ready(OperatorId op) {
  if (member_[op.index()] < 0) return;  // the lane looks at its next LLM operator by itself
  Member& member = member_of(op);
  const std::int32_t microbatch = deps_.microbatch(op);
  if (deps_.is_backward(op)) return push(member.backward, microbatch);
  if (!member.generator || !rules_.rounds) return push(member.forward, microbatch);

  member.held.insert(std::upper_bound(member.held.begin(), member.held.end(), microbatch), microbatch);
  const ModuleId module{member.pool + 1};
  const std::int32_t round = round_[op.index()];
  if (--round_left_[member.pool][round] > 0) return;
  // The round is complete: what of it has not run early goes ahead of the LLM now.
  for (Member& other : members_) {
    if (other.pool != member.pool) continue;
    const auto end = std::remove_if(other.held.begin(), other.held.end(), [&](std::int32_t m) {
      if (round_[deps_.forward(module, m).index()] != round) return false;
      push(other.forward, m);
      return true;
    });
    if (end == other.held.end()) continue;
    other.held.erase(end, other.held.end());
    wake(other.lane);
  }
}

}  // namespace nestor::scheduler
