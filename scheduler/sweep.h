#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nestor/scheduler/shape.h>

namespace nestor::scheduler {

/// Values to try, all combinations of them. Empty ones are the caller's mistake but for `pools`.
struct SweepAxes {
  std::vector<std::int32_t> stages, chunks, microbatches;
  std::vector<std::string> policies;
  std::vector<std::vector<std::int32_t>> pools = {};    ///< by pool: its sizes; empty: as it is
  std::vector<std::optional<bool>> own_devices = {{}};  ///< placements of all pools
  std::vector<bool> recompute = {false};
  std::optional<std::int64_t> memory_bytes = {};  ///< in place of the workload's cap; 0: none
};

struct Configuration {
  Shape shape;
  std::string policy;
};
/// In a fixed order. Throws Error where there are more than 100,000.
std::vector<Configuration> configurations(const SweepAxes& axes);

enum class SweepVerdict : std::uint8_t {
  fits,
  memory,   ///< no plan within the cap; `over_bytes` says by how much
  shape,    ///< the model cannot be cut so
  policy,   ///< the policy has no plan for it
  unsound,  ///< the plan fails its proof: a defect
};
std::string_view to_string(SweepVerdict verdict);

struct SweepRow {
  Configuration configuration;
  SweepVerdict verdict = SweepVerdict::fits;
  std::string why;              ///< empty where it fits
  std::int64_t over_bytes = 0;  ///< memory: needed on the fullest lane beyond the cap
  std::int32_t lanes = 0;       ///< of the workload
  double makespan = 0;          ///< seconds
  double per_microbatch = 0;    ///< makespan / M: what configurations are ranked by
  double bubble = 0;            ///< as Simulation's
  std::int64_t peak_bytes = 0;  ///< of the fullest lane
  std::int32_t extra_warmup = 0;
  std::vector<double> in_flight;  ///< by module, the fullest lane's
};

/// Makes the workload of a shape; throws Error where there is none. Called from several threads.
using WorkloadOf = std::function<Workload(const Shape&)>;

/// Plans, proves (transport single) and times every configuration on `threads` threads; best first: those that fit by
/// seconds per microbatch, then by bytes; behind them the others in their own order. Rows do not depend on the number
/// of threads. `on_progress(done, total)` is called from the workers, one at a time.
std::vector<SweepRow> sweep(const WorkloadOf& workload_of, const SweepAxes& axes, std::int32_t threads,
                            const std::function<void(std::size_t, std::size_t)>& on_progress = {});

}  // namespace nestor::scheduler
