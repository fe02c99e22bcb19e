#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <nestor/scheduler/ids.h>

namespace nestor::scheduler {

enum class OpKind : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  recompute,
  send,
  recv,
  reduce,
  update,
};
std::string_view to_string(OpKind kind);

enum class Direction : std::uint8_t { activation, gradient };
std::string_view to_string(Direction direction);

/// A row of the global table, 40 bytes.
/// Compute rows use module, microbatch and stage (invalid for pools); transfers also to_module, to_stage, direction
/// and peer, with module/stage as the sending end on both sides; reduce uses module and `reduction`.
struct Operator {
  OpKind kind = OpKind::forward;
  Direction direction = Direction::activation;
  std::int16_t module = 0;
  std::int16_t to_module = 0;
  std::int32_t microbatch = -1;
  std::int32_t stage = -1;
  std::int32_t to_stage = -1;
  union {
    std::int32_t peer = -1;  ///< transfers: the other lane
    std::int32_t reduction;  ///< reduce: index into OperatorTable::reductions
  };
  double start = 0;  ///< seconds from the step's start
  double end = 0;

  bool is_compute() const { return kind <= OpKind::recompute; }
  bool is_transfer() const { return kind == OpKind::send || kind == OpKind::recv; }
};

/// Gradients that several lanes sum after their last compute row: a pool's, or tied weights of the LLM.
struct Reduction {
  ModuleId module;
  std::vector<LaneId> lanes;  ///< ascending; every one of them has a reduce row for it
};

/// All lanes' rows in one flat array, each lane's in execution order.
struct OperatorTable {
  std::vector<Operator> operators;
  std::vector<std::uint32_t> lane_begin{0};  ///< lanes + 1 offsets into `operators`
  std::vector<Reduction> reductions;

  std::int32_t lanes() const { return static_cast<std::int32_t>(lane_begin.size()) - 1; }
  std::span<const Operator> row(LaneId lane) const {
    return {operators.data() + lane_begin[lane.index()], operators.data() + lane_begin[lane.index() + 1]};
  }
  std::span<Operator> row(LaneId lane) {
    return {operators.data() + lane_begin[lane.index()], operators.data() + lane_begin[lane.index() + 1]};
  }
};

}  // namespace nestor::scheduler
