#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <nestor/scheduler/ids.h>
#include <nestor/scheduler/operator_table.h>
#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// A compute operator, as an index into the arrays of `Dependencies`.
using OperatorId = Id<struct OperatorTag>;

/// Every compute operator of a workload under one dense number, with its lane, its cost and what it needs.
///
/// Numbers are laid out as LLM forwards (microbatch * stages + stage), LLM backwards alike, then for each pool its
/// forwards and its backwards by microbatch. Rows that the workload does not have (absent modality, nothing to train)
/// keep their number and answer false to `exists`, so that finding a number is arithmetic and never a look-up.
/// Built in linear time; about 30 bytes an operator. Holds no reference to the workload. Immutable, any thread.
class Dependencies {
 public:
  /// `workload` has passed `validate`.
  explicit Dependencies(const Workload& workload);

  std::int32_t size() const { return static_cast<std::int32_t>(lane_.size()); }  ///< numbers, missing rows included
  std::int32_t count() const { return count_; }                                  ///< operators that exist
  std::int32_t lanes() const { return lanes_; }
  std::int32_t stages() const { return stages_; }  ///< model stages, P*V
  std::int32_t microbatches() const { return microbatches_; }
  std::int32_t modules() const { return modules_; }  ///< the LLM and the pools

  /// `stage` is ignored for pools.
  OperatorId forward(ModuleId module, std::int32_t microbatch, std::int32_t stage = 0) const {
    return OperatorId{module == kLlm ? std::int64_t{microbatch} * stages_ + stage : pool_begin(module) + microbatch};
  }
  OperatorId backward(ModuleId module, std::int32_t microbatch, std::int32_t stage = 0) const {
    return OperatorId{forward(module, microbatch, stage).value + (module == kLlm ? llm_size() : microbatches_)};
  }
  /// The backward that belongs to a forward.
  OperatorId backward_of(OperatorId forward) const {
    return OperatorId{forward.value + (forward.value < llm_size() ? llm_size() : microbatches_)};
  }
  /// The number of a forward or backward row; invalid where no such operator exists (any row may be asked).
  OperatorId find(const Operator& row) const;
  /// The row that stands for an operator; times are zero.
  Operator row(OperatorId op) const;

  bool exists(OperatorId op) const { return lane_[op.index()] >= 0; }
  LaneId lane(OperatorId op) const { return LaneId{lane_[op.index()]}; }
  ModuleId module(OperatorId op) const {
    return is_llm(op) ? kLlm : ModuleId{1 + (op.value - 2 * llm_size()) / (2 * microbatches_)};
  }
  std::int32_t microbatch(OperatorId op) const {
    return is_llm(op) ? within_llm(op) / stages_ : (op.value - 2 * llm_size()) % microbatches_;
  }
  /// The model stage; -1 for pools.
  std::int32_t stage(OperatorId op) const { return is_llm(op) ? within_llm(op) % stages_ : -1; }
  bool is_backward(OperatorId op) const {
    return is_llm(op) ? op.value >= llm_size() : (op.value - 2 * llm_size()) / microbatches_ % 2 == 1;
  }
  /// Seconds. Costs lie on a grid (a power of two) that is coarse enough for every sum of a step to be exact in
  /// double, so times do not depend on the order of additions or on the machine. Rounding: total work * 2^-52.
  /// A backward of a module that recomputes includes its forward, run again right before it on the same lane.
  double cost(OperatorId op) const { return cost_[op.index()]; }
  /// Of that, the recomputation, which needs nothing but the lane: it may pass before the gradient arrives.
  /// Does every backward of the module follow a recompute row?
  bool module_recomputes(ModuleId module) const { return module_recomputes_[module.index()] != 0; }
  double recompute(OperatorId op) const { return recompute_.empty() ? 0 : recompute_[op.index()]; }
  /// The operators that must have ended before this one starts, wherever they run. Existing operators only.
  std::span<const OperatorId> needs(OperatorId op) const {
    return {needs_.data() + needs_begin_[op.index()], needs_.data() + needs_begin_[op.index() + 1]};
  }
  /// Payload of a transfer from one module to another: an encoder's own message wherever it goes or comes back from, a
  /// generator's for what passes between it and the LLM, else the LLM's stage-to-stage message.
  std::int64_t message_bytes(ModuleId from, ModuleId to) const { return message_bytes_[edge(from, to).index()]; }
  /// Seconds from the end of an operator to the arrival of its output for another; 0 on one lane. On the grid.
  double transfer_seconds(OperatorId from, OperatorId to) const {
    if (free_transfers_ || lane(from) == lane(to)) return 0;
    return message_seconds_[edge(module(from), module(to)).index()];
  }
  bool free_transfers() const { return free_transfers_; }
  /// Seconds that a message of this module travels.
  double message_seconds(ModuleId module) const { return message_seconds_[module.index()]; }

 private:
  std::int32_t llm_size() const { return microbatches_ * stages_; }
  bool is_llm(OperatorId op) const { return op.value < 2 * llm_size(); }
  /// microbatch * stages + stage of an LLM operator.
  std::int32_t within_llm(OperatorId op) const { return op.value < llm_size() ? op.value : op.value - llm_size(); }
  std::int64_t pool_begin(ModuleId module) const {
    return 2 * std::int64_t{llm_size()} + 2 * std::int64_t{microbatches_} * (module.value - 1);
  }
  double on_grid(double seconds) const;
  ModuleId edge(ModuleId from, ModuleId to) const {
    if (from == kLlm) return to;
    return to == kLlm || is_encoder_[from.index()] ? from : to;
  }
  void place(const Workload& workload);
  void measure_transfers(const Workload& workload);
  void set_grid();
  void add_recomputation(const Workload& workload);
  void link(const Workload& workload);

  std::int32_t stages_, microbatches_, modules_, lanes_;
  std::int32_t count_ = 0;
  double grid_ = 0;
  bool free_transfers_ = true;
  std::vector<std::uint8_t> module_recomputes_;  ///< by module, as the next three
  std::vector<std::uint8_t> is_encoder_;
  std::vector<std::int64_t> message_bytes_;
  std::vector<double> message_seconds_;
  std::vector<std::int32_t> lane_;  ///< -1: no such row
  std::vector<double> cost_;
  std::vector<double> recompute_;  ///< empty where nothing recomputes
  std::vector<std::uint32_t> needs_begin_;
  std::vector<OperatorId> needs_;
};

}  // namespace nestor::scheduler
