#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <nestor/scheduler/dependencies.h>

namespace nestor::scheduler {

/// The order of each lane's compute operators: what a policy decides. All lanes in one flat array.
struct LaneOrders {
  std::vector<OperatorId> operators;
  std::vector<std::uint32_t> lane_begin{0};  ///< lanes + 1 offsets into `operators`

  std::int32_t lanes() const { return static_cast<std::int32_t>(lane_begin.size()) - 1; }
  std::span<const OperatorId> lane(LaneId lane) const {
    return {operators.data() + lane_begin[lane.index()], operators.data() + lane_begin[lane.index() + 1]};
  }
};

/// Fills lane orders by appending operators to their lanes, in any interleaving of lanes. The lanes' sizes are those
/// of the workload's operators (of the LLM alone, if asked), each appended once.
class OrderBuilder {
 public:
  OrderBuilder(const Dependencies& dependencies, bool llm_only);

  void append(OperatorId op) { orders_.operators[cursor_[dependencies_.lane(op).index()]++] = op; }
  void append_if_exists(OperatorId op) {
    if (dependencies_.exists(op)) append(op);
  }
  LaneOrders take() { return std::move(orders_); }

 private:
  const Dependencies& dependencies_;
  LaneOrders orders_;
  std::vector<std::uint32_t> cursor_;
};

}  // namespace nestor::scheduler
