#include <algorithm>

#include <nestor/scheduler/describe.h>
#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler::verification {
namespace {

/// The queue model of docs/schedule.md. What a queue holds, and in which order, is known beforehand: the transfers of
/// its lane (and peer, and kind) as the lane's order has them. So a queue is a linked list through the rows.
class Run {
 public:
  Run(State& state, Transport transport) : state_(state), table_(state.plan.table), transport_(transport) {
    const std::size_t rows = table_.operators.size();
    issued_.assign(rows, 0);
    ended_.assign(rows, 0);
    pending_.assign(static_cast<std::size_t>(state.dependencies.size()), 0);
    position_.assign(table_.lane_begin.begin(), table_.lane_begin.end() - 1);
    if (transport_ != Transport::buffered) make_queues();
    for (std::uint32_t i = 0; i < rows; ++i)
      if (table_.operators[i].kind == OpKind::recv) ++pending_[static_cast<std::size_t>(state_.op_of_row[i])];
  }

  /// Runs every lane as far as it goes; false where something is left.
  bool run() {
    std::size_t left = 0;
    for (std::int32_t lane = table_.lanes(); lane-- > 0;) work_.push_back(lane);
    while (!work_.empty()) {
      const auto lane = static_cast<std::size_t>(work_.back());
      work_.pop_back();
      advance(lane);
    }
    for (std::size_t i = 0; i < ended_.size(); ++i) left += table_.operators[i].is_transfer() && !ended_[i];
    return left == 0;
  }

  /// The circle of waits, after `run` was false: from what is stuck to what it waits for, until one comes again.
  std::string explain(std::uint32_t& first) const {
    std::uint32_t at = kNone;
    for (std::size_t lane = 0; lane < position_.size() && at == kNone; ++lane)
      if (position_[lane] < table_.lane_begin[lane + 1]) at = position_[lane];
    for (std::uint32_t i = 0; at == kNone && i < ended_.size(); ++i)
      if (table_.operators[i].is_transfer() && !ended_[i]) at = i;
    std::vector<std::uint8_t> seen(table_.operators.size(), 0);
    std::string ignored;
    while (!seen[at]) {
      seen[at] = 1;
      at = next(at, ignored);
      ignored.clear();
    }
    // Begin the telling at a lane that is held in an operator, where the circle has one.
    first = at;
    for (std::uint32_t i = next(at, ignored); !table_.operators[first].is_compute() && i != at; i = next(i, ignored))
      if (table_.operators[i].is_compute()) first = i;
    std::string story;
    std::uint32_t i = first;
    do {
      if (!story.empty()) story += "; ";
      i = next(i, story);
    } while (i != first && story.size() < 2000);
    return story;
  }

 private:
  void make_queues() {
    const std::size_t rows = table_.operators.size();
    queue_.assign(rows, kNone);
    behind_.assign(rows, kNone);
    std::vector<std::uint32_t> of_peer(2 * static_cast<std::size_t>(table_.lanes()), kNone), used;
    std::vector<std::uint32_t> tail;
    for (std::size_t lane = 0; lane < position_.size(); ++lane) {
      used.clear();
      for (std::uint32_t i = table_.lane_begin[lane]; i < table_.lane_begin[lane + 1]; ++i) {
        const Operator& row = table_.operators[i];
        if (!row.is_transfer()) continue;
        const auto peer = static_cast<std::uint32_t>(row.peer);
        const std::uint32_t key = transport_ == Transport::single ? 0
                                  : transport_ == Transport::pair ? 2 * peer
                                                                  : 2 * peer + (row.kind == OpKind::send);
        if (of_peer[key] == kNone) {
          of_peer[key] = static_cast<std::uint32_t>(head_.size());
          used.push_back(key);
          head_.push_back(i);
          tail.push_back(i);
        } else {
          behind_[tail[of_peer[key]]] = i;
          tail[of_peer[key]] = i;
        }
        queue_[i] = of_peer[key];
      }
      for (std::uint32_t key : used) of_peer[key] = kNone;
    }
  }

  bool at_head(std::uint32_t row) const { return head_[queue_[row]] == row; }

  void advance(std::size_t lane) {
    for (std::uint32_t& i = position_[lane]; i < table_.lane_begin[lane + 1]; ++i) {
      const Operator& row = table_.operators[i];
      if (row.is_transfer()) {
        issued_[i] = 1;
        settle(i);
      } else if (needs_receives(row) && pending_[static_cast<std::size_t>(state_.op_of_row[i])] > 0) {
        return;
      }
    }
  }

  static bool needs_receives(const Operator& row) {
    return row.kind == OpKind::forward || row.kind == OpKind::backward || row.kind == OpKind::backward_input;
  }

  /// Ends the transfer and all that then come to the heads of their queues.
  void settle(std::uint32_t row) {
    settling_.push_back(row);
    while (!settling_.empty()) {
      const std::uint32_t i = settling_.back(), mate = state_.mate[i];
      settling_.pop_back();
      if (ended_[i] || !issued_[i]) continue;
      if (transport_ == Transport::buffered) {
        if (table_.operators[i].kind == OpKind::send) {
          ended_[i] = 1;
          if (issued_[mate]) settling_.push_back(mate);
        } else if (issued_[mate]) {
          end(i);
        }
        continue;
      }
      if (!issued_[mate] || !at_head(i) || !at_head(mate)) continue;
      for (const std::uint32_t k : {i, mate}) {
        end(k);
        const std::uint32_t behind = behind_[k];
        head_[queue_[k]] = behind;
        if (behind != kNone) settling_.push_back(behind);
      }
    }
  }

  void end(std::uint32_t i) {
    ended_[i] = 1;
    if (table_.operators[i].kind != OpKind::recv) return;
    const auto reader = static_cast<std::size_t>(state_.op_of_row[i]);
    if (--pending_[reader] > 0) return;
    const auto lane = static_cast<std::size_t>(state_.lane_of_row[i]);
    if (position_[lane] == state_.row_of_op[reader]) work_.push_back(static_cast<std::int32_t>(lane));
  }

  std::string quoted(std::uint32_t row) const {
    const auto lane = static_cast<std::size_t>(state_.lane_of_row[row]);
    return "'" + describe(state_.plan.workload, table_.operators[row]) + "' (operator " +
           std::to_string(row - table_.lane_begin[lane]) + ")";
  }
  std::string lane_name(std::uint32_t row) const { return "lane " + std::to_string(state_.lane_of_row[row]); }

  /// What a stuck row waits for; says so in `story`.
  std::uint32_t next(std::uint32_t row, std::string& story) const {
    if (!table_.operators[row].is_transfer()) {
      // The first receive of this operator that has not ended stands before it on its lane.
      const auto lane = static_cast<std::size_t>(state_.lane_of_row[row]);
      std::uint32_t recv = row;
      for (std::uint32_t i = table_.lane_begin[lane]; i < row; ++i)
        if (table_.operators[i].kind == OpKind::recv && !ended_[i] && state_.op_of_row[i] == state_.op_of_row[row]) {
          recv = i;
          break;
        }
      story += lane_name(row) + " waits in " + quoted(row) + " for its " + quoted(recv);
      return recv;
    }
    const std::uint32_t mate = state_.mate[row];
    if (transport_ != Transport::buffered && !at_head(row)) {
      const std::uint32_t head = head_[queue_[row]];
      story += "that stands behind " + quoted(head) + " in a queue of " + lane_name(row);
      return head;
    }
    if (!issued_[mate]) {
      const std::uint32_t held = position_[static_cast<std::size_t>(state_.lane_of_row[mate])];
      story += "that waits for " + lane_name(mate) + " to come to " + quoted(mate);
      return held;
    }
    const std::uint32_t head = head_[queue_[mate]];
    story += "that waits for " + quoted(mate) + " of " + lane_name(mate) + ", which stands behind " + quoted(head);
    return head;
  }

  State& state_;
  const OperatorTable& table_;
  const Transport transport_;
  std::vector<std::uint8_t> issued_, ended_;   // by row
  std::vector<std::int32_t> pending_;          // by operator: receives that have not ended
  std::vector<std::uint32_t> position_;        // by lane: the row to be issued next
  std::vector<std::uint32_t> queue_, behind_;  // by row: its queue, and who stands behind it there
  std::vector<std::uint32_t> head_;            // by queue
  std::vector<std::int32_t> work_;             // lanes that may go on
  std::vector<std::uint32_t> settling_;
};

}  // namespace

void check_transport(State& state, Transport transport) {
  Run run(state, transport);
  if (run.run()) return;
  std::uint32_t first = 0;
  const std::string story = run.explain(first);
  state.fault(state.place(first), "hangs under transport '" + std::string(to_string(transport)) + "': " + story);
}

}  // namespace nestor::scheduler::verification
