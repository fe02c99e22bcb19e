#include <nestor/scheduler/lane_orders.h>

namespace nestor::scheduler {

OrderBuilder::OrderBuilder(const Dependencies& dependencies, bool llm_only) : dependencies_(dependencies) {
  const std::int32_t size = llm_only ? 2 * dependencies.microbatches() * dependencies.stages() : dependencies.size();
  auto& begin = orders_.lane_begin;
  begin.assign(static_cast<std::size_t>(dependencies.lanes()) + 1, 0);
  for (std::int32_t i = 0; i < size; ++i) {
    if (dependencies.exists(OperatorId{i})) ++begin[dependencies.lane(OperatorId{i}).index() + 1];
  }
  for (std::size_t lane = 1; lane < begin.size(); ++lane) begin[lane] += begin[lane - 1];
  orders_.operators.resize(begin.back());
  cursor_.assign(begin.begin(), begin.end() - 1);
}

}  // namespace nestor::scheduler
