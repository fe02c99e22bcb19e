#include <nestor/scheduler/describe.h>

namespace nestor::scheduler {
namespace {

std::string end_of_transfer(const Workload& workload, std::int32_t module, std::int32_t stage) {
  std::string out = module >= 0 && module <= static_cast<std::int32_t>(workload.pools.size())
                        ? std::string(workload.name(ModuleId{module}))
                        : "module " + std::to_string(module);
  if (stage >= 0) out += " stage " + std::to_string(stage);
  return out;
}

}  // namespace

std::string describe(const Workload& workload, const Operator& op) {
  std::string out(to_string(op.kind));
  if (op.kind == OpKind::update) return out;
  if (op.kind == OpKind::reduce) return out + " " + end_of_transfer(workload, op.module, -1);
  if (op.is_transfer())
    return out + " " + std::string(to_string(op.direction)) + " " + end_of_transfer(workload, op.module, op.stage) +
           " -> " + end_of_transfer(workload, op.to_module, op.to_stage) + " microbatch " +
           std::to_string(op.microbatch) + (op.kind == OpKind::send ? " to lane " : " from lane ") +
           std::to_string(op.peer);
  return out + " " + end_of_transfer(workload, op.module, op.stage) + " microbatch " + std::to_string(op.microbatch);
}

std::string describe(const Plan& plan, LaneId lane, std::size_t operator_of_lane) {
  const auto row = plan.table.row(lane);
  std::string out = "lane " + std::to_string(lane.value) + ", operator " + std::to_string(operator_of_lane);
  if (operator_of_lane < row.size()) out += " (" + describe(plan.workload, row[operator_of_lane]) + ")";
  return out;
}

}  // namespace nestor::scheduler
