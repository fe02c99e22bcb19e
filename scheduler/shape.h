#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {

/// How a model or a workload is spread out: one configuration of a sweep.
struct Shape {
  std::int32_t stages = 1;
  std::int32_t chunks = 1;
  std::int32_t microbatches = 1;
  std::optional<bool> own_devices = {};       ///< pools beyond the LLM's lanes; none: as they are, else colocated
  std::vector<std::int32_t> pool_sizes = {};  ///< by pool; 0 or absent: as they are, else one member a stage
  bool recompute = false;                     ///< every module; false: as they are
  bool coupled = false;                       ///< pools where the policy of this name has them
};

/// A workload under another shape. The LLM's whole cost and stash are spread evenly over the new model stages; costs
/// by microbatch and absences are repeated or cut off; pools keep their size and place where the shape leaves them.
/// Throws Error where the result is no workload.
Workload reshape(const Workload& workload, const Shape& shape);

}  // namespace nestor::scheduler
