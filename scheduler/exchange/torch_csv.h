#pragma once

#include <string>
#include <string_view>

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// Two dialects of the schedule tables of torch.distributed.pipelining exist, without a mark that tells them apart.
/// `torch`: B is a full backward, I and W its halves. `torch_legacy`: B is the input half, BW the full backward.
enum class CsvDialect { torch, torch_legacy };
CsvDialect parse_csv_dialect(std::string_view name);  ///< "torch" or "torch-legacy"; throws Error

/// Seconds of one action on one stage. The halves together are a backward.
struct CsvCosts {
  double forward = 1;
  double backward = 2;
  double input = 1;
  double weight = 1;
};

/// A table as a complete plan. A row is a rank (lane), a cell an action in the order they run, an empty cell idle:
/// `0F1`, `0I1`, `0W1`, `0B1` (stage, action, microbatch), `0SEND_F1`, `1RECV_F1`, `1SEND_B1`, `0RECV_B1`,
/// `(0F1;3B0)OVERLAP_F_B` (run one after the other here), `0REDUCE_GRAD` (must follow the stage's last backward; the
/// update stands for it), `0UNSHARD` and `0RESHARD` (no matter to a schedule, skipped). Stages lie on the rank that
/// runs them, wherever that is. A table without transfers gets them (completion.h). The order is marked as custom
/// unless it is a backbone's. Soundness of transfers is the verifier's matter.
/// Throws Error with source:row:column (from 1, columns in cells) on anything malformed, and with the lane where the
/// table's operators are incomplete or wait for each other in a circle.
Plan read_torch_csv(std::string_view text, std::string_view source, CsvDialect dialect, const CsvCosts& costs = {});

/// A plan's order as a table, CRLF at line ends, with its transfers or compute alone. Throws Error where the plan has
/// what tables cannot say: pools or recomputation.
std::string write_torch_csv(const Plan& plan, CsvDialect dialect, bool transfers);

}  // namespace nestor::scheduler
