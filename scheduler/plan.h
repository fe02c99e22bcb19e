#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/scheduler/operator_table.h>
#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// A plan: the global operator table and what it was made from. Made by a policy (planner.h), checked by the verifier
/// (verifier.h), timed by the simulator (simulator.h), interpreted by executors.
struct Plan {
  std::string policy;
  Workload workload;  ///< resolved, in the plan's own microbatch numbering
  OperatorTable table;
  std::int32_t extra_warmup = 0;               ///< D of docs/schedule.md
  bool custom_backbone = false;                ///< the LLM order is none of the backbones'
  double makespan = 0;                         ///< seconds, reduce and update not counted
  std::vector<std::int32_t> microbatch_order;  ///< the input's number of each microbatch; empty: unchanged
  /// Peak microbatches in flight, [module][lane]; the LLM's in units of a lane's full share (chunks count 1/V).
  std::vector<std::vector<double>> in_flight;
};

/// nestor.plan/1. Throws Error with path:field on anything malformed; soundness is the verifier's matter.
Plan read_plan(std::string_view json, std::string_view source);
std::string write_plan(const Plan& plan);

/// 64-bit digest of the operator table without times (16 hex digits in text): equal tables on any machine give
/// equal digests. Executors fold the same function over the rows they run, so both can be compared.
std::uint64_t digest(const OperatorTable& table);
/// Digest of one lane's row order; `digest(table)` combines the lanes'.
class RowDigest {
 public:
  void add(const Operator& op);
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ull;
};
std::uint64_t digest(const OperatorTable& table, LaneId lane);

}  // namespace nestor::scheduler
