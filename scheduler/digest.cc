#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {
namespace {

std::uint64_t fold(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * 0x9e3779b97f4a7c15ull;
  return state ^ (state >> 32);
}

std::uint64_t pack(std::int32_t high, std::int32_t low) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 | static_cast<std::uint32_t>(low);
}

}  // namespace

void RowDigest::add(const Operator& op) {
  state_ = fold(state_, static_cast<std::uint64_t>(op.kind) << 8 | static_cast<std::uint64_t>(op.direction));
  state_ = fold(state_, pack(op.module, op.microbatch));
  state_ = fold(state_, pack(op.stage, op.is_transfer() ? op.to_module : -1));
  if (op.is_transfer()) state_ = fold(state_, pack(op.to_stage, op.peer));
}

std::uint64_t digest(const OperatorTable& table, LaneId lane) {
  RowDigest row;
  for (const Operator& op : table.row(lane)) row.add(op);
  return row.value();
}

std::uint64_t digest(const OperatorTable& table) {
  std::uint64_t state = RowDigest().value();
  for (std::int32_t lane = 0; lane < table.lanes(); ++lane) state = fold(state, digest(table, LaneId{lane}));
  // A reduction's number is how a table stores it, not what it is: the sum does not depend on the numbers.
  std::uint64_t reductions = 0;
  for (const Reduction& reduction : table.reductions) {
    std::uint64_t one = fold(RowDigest().value(), pack(reduction.module.value, 0));
    for (const LaneId lane : reduction.lanes) one = fold(one, pack(lane.value, 1));
    reductions += one;
  }
  return fold(state, reductions);
}

}  // namespace nestor::scheduler
