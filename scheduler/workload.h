#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/scheduler/error.h>
#include <nestor/scheduler/ids.h>

namespace nestor::scheduler {

/// The LLM as a schedule sees it. Vectors are resolved: never shorter than the sizes named.
struct LlmWorkload {
  std::vector<double> forward;   ///< seconds, one per model stage (P*V)
  std::vector<double> backward;  ///< seconds, one per model stage
  std::vector<double> scale;     ///< a factor per microbatch (M)
  std::vector<LaneId> lanes;     ///< lane of each model stage
  bool trainable = true;
  std::int64_t message_bytes = 0;  ///< one stage-to-stage message
  std::int64_t stash_bytes = 0;    ///< activations kept per microbatch and model stage
  bool recompute = false;          ///< the forward runs again before the backward; until then only its input is kept
};

enum class PoolKind : std::uint8_t { encoder, generator };

/// An encoder's or a generator's pool.
struct PoolWorkload {
  std::string name;
  PoolKind kind = PoolKind::encoder;
  std::vector<double> forward;       ///< seconds, one per microbatch (M)
  std::vector<double> backward;      ///< seconds, one per microbatch
  std::vector<LaneId> lanes;         ///< lane of each member
  std::vector<std::int32_t> owner;   ///< member that has each microbatch
  bool owner_given = false;          ///< the file names owners: planners keep them
  std::vector<std::uint8_t> absent;  ///< 1 where the microbatch lacks this modality (M)
  std::vector<ModuleId> inputs;      ///< generators: what they read, kLlm and encoders
  bool trainable = true;
  std::int64_t message_bytes = 0;
  std::int64_t stash_bytes = 0;
  bool recompute = false;
  std::optional<std::int32_t> in_flight_cap;  ///< per member; none: the policy's default
};

/// nestor.workload/1, resolved (docs/formats.md). Costs in seconds.
struct Workload {
  std::int32_t stages = 1;        ///< P
  std::int32_t chunks = 1;        ///< V
  std::int32_t microbatches = 1;  ///< M
  LlmWorkload llm;
  std::vector<PoolWorkload> pools;         ///< encoders in file order, then generators; ModuleId{i + 1} is pools[i]
  double transfer_latency = 0;             ///< seconds; 0: free
  double transfer_bytes_per_second = 0;    ///< 0: free
  std::int64_t memory_bytes_per_lane = 0;  ///< 0: no cap
  /// By lane: parameters, gradients and optimizer state, there all the time. Lanes beyond its end hold none.
  std::vector<std::int64_t> resident_bytes;

  std::int32_t model_stages() const { return stages * chunks; }
  /// One more than the highest lane any stage or member lives on.
  std::int32_t lane_count() const;
  std::string_view name(ModuleId module) const { return module == kLlm ? std::string_view("llm") : pool(module).name; }
  const PoolWorkload& pool(ModuleId module) const { return pools[module.index() - 1]; }
  /// Does a backward row of this module exist for this microbatch? (It or something upstream of it is trainable.)
  bool has_backward(ModuleId module, MicrobatchId microbatch) const;
};

/// A workload of one shape with the contract's defaults, to be filled in and then checked by `validate`.
Workload make_workload(std::int32_t stages, std::int32_t chunks, std::int32_t microbatches, double forward,
                       double backward);
PoolWorkload make_pool(const Workload& workload, std::string name, PoolKind kind, double forward, double backward);

/// Checks lengths, ranges, names and sizes. Throws Error naming the field as `source`:field.
void validate(const Workload& workload, std::string_view source);
/// Of that, what must hold before vectors of these sizes are made: P, V, M and the number of pools.
void validate_sizes(const Workload& workload, std::string_view source);

/// Reads and validates nestor.workload/1, YAML or JSON. `source` names the text in errors, which are "source:line:
/// field: what" or, for JSON, "source:field: what". Throws Error.
Workload read_workload(std::string_view text, std::string_view source);
/// The resolved workload as a JSON object that `read_workload` reads back unchanged.
std::string write_workload(const Workload& workload);

}  // namespace nestor::scheduler
