#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nestor/scheduler/lane_orders.h>

namespace nestor::scheduler {

/// How the list scheduler chooses where several operators could start. No rule is best everywhere, so policies try
/// several and keep the best plan.
struct ListRules {
  /// Generators start by rounds of their pool's size, ahead of the LLM, so that all lanes pause at the same time: a
  /// lane that pauses alone stalls the pipeline once for every lane.
  bool rounds = true;
  /// A generator whose round is not complete may use an idle window that is long enough for it.
  bool early = false;
  /// Idle windows go to encoders' forwards before their backwards.
  bool forward_first = true;
  /// A modality operator starts in an idle window where the window lasts at least this share of its cost.
  double patience = 0.75;
  /// An encoder forward goes ahead of the LLM once stage 0 is within this many microbatches of needing it.
  std::int32_t lookahead = 0;
  /// A full encoder member (at most this many places free) runs a backward that is ready ahead of all else:
  /// microbatches behind it wait for its place. -1: never.
  std::int32_t relief = -1;
};

/// Orders a workload's operators by simulating time: whenever a lane is free it takes its next LLM operator if that is
/// ready (the LLM order is given and never changed), and modality operators by `ListRules` within caps on activations
/// in flight. Greedy list scheduling (Graham, 1969) around a fixed backbone.
///
/// Linear in the number of operators but for heaps of waiting microbatches. Reusable: `run` may be called many times.
/// Deterministic: ties go to the lower lane, then the lower microbatch; times are exact (Dependencies::cost).
class ListScheduler {
 public:
  /// Both must outlive it.
  ListScheduler(const Dependencies& dependencies, const Workload& workload);

  struct Result {
    LaneOrders orders;
    double makespan;  ///< seconds; infinity where the caps or the LLM's order leave the lanes stuck
  };
  /// `llm`: the LLM operators of each lane, in order. `caps`: per pool (index: module - 1), of each member.
  Result run(const LaneOrders& llm, const std::vector<std::int32_t>& caps, const ListRules& rules);

 private:
  struct Member {
    std::int32_t pool, lane, cap = 0, in_flight = 0;
    bool generator = false;
    std::vector<std::int32_t> forward, backward;  ///< ready microbatches, heaps with the lowest on top
    std::vector<std::int32_t> held;               ///< generator forwards whose round is not complete
  };
  /// A lane's operator ends, or (arrival) what one operator made reaches another on a lane away.
  struct Event {
    double time;
    OperatorId op;
    bool arrival;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : op > other.op; }
  };

  void reset(const std::vector<std::int32_t>& caps);
  OperatorId pick(std::int32_t lane, double now);
  OperatorId pick_waiting(std::int32_t lane, double slack);
  double slack(std::int32_t lane, double now) const;
  void start(std::int32_t lane, OperatorId op, double now);
  void push_event(const Event& event);
  void finish(OperatorId op, double now);
  void arrive(OperatorId reader);
  void became_ready(OperatorId op);
  void wake(std::int32_t lane);
  Member& member_of(OperatorId op) { return members_[member_[op.index()]]; }

  const Dependencies& deps_;
  // Fixed by the workload.
  std::vector<std::uint32_t> readers_begin_;
  std::vector<OperatorId> readers_;   ///< operators that need an operator
  std::vector<std::int32_t> member_;  ///< of each pool operator
  std::vector<std::vector<std::int32_t>> lane_members_;
  std::vector<std::int32_t> round_;                    ///< of each generator forward
  std::vector<std::vector<std::int32_t>> round_size_;  ///< by pool
  // Of one run.
  ListRules rules_;
  const LaneOrders* llm_ = nullptr;
  std::optional<OrderBuilder> order_;
  std::vector<Member> members_;
  std::vector<std::vector<std::int32_t>> round_left_;
  std::vector<std::uint8_t> unmet_;      ///< needs not yet ended
  std::vector<double> end_;              ///< of operators that have started, else infinity
  std::vector<std::uint32_t> next_llm_;  ///< by lane
  std::vector<std::uint8_t> busy_, awake_;
  std::vector<std::int32_t> wake_list_;
  std::vector<Event> events_;
  std::int32_t stage0_next_ = 0;  ///< one more than the highest microbatch that stage 0 has started
};

}  // namespace nestor::scheduler
