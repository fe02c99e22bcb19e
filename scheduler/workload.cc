#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <unordered_set>

#include <nestor/scheduler/workload.h>

namespace nestor::scheduler {
namespace {

constexpr std::int64_t kMaxOperators = std::int64_t{1} << 28;
constexpr std::int32_t kMaxLanes = 1 << 16;
constexpr double kMaxSeconds = 1e9;  ///< of one operator; sums of them stay far inside double
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 53;
constexpr std::size_t kMaxPools = 1 << 10;

/// Checks one workload; `source` opens every error.
class Checker {
 public:
  Checker(const Workload& workload, std::string_view source) : w_(workload), source_(source) {}

  /// What must hold before anything of these sizes is allocated.
  void sizes() const {
    if (w_.stages < 1) fail("pipeline.stages", "must be at least 1");
    if (w_.chunks < 1) fail("pipeline.chunks", "must be at least 1");
    if (w_.microbatches < 1) fail("pipeline.microbatches", "must be at least 1");
    if (w_.stages > kMaxLanes) fail("pipeline.stages", "more than 65536 lanes");
    if (w_.pools.size() > kMaxPools) fail("encoders", "more than 1024 pools");
    const auto rows = 2 * (std::int64_t{w_.stages} * w_.chunks + static_cast<std::int64_t>(w_.pools.size()));
    if (rows > kMaxOperators / w_.microbatches) fail("pipeline", "more than 2^28 operators");
  }

  void run() const {
    sizes();
    costs("llm.forward", w_.llm.forward, w_.model_stages(), "one per model stage");
    costs("llm.backward", w_.llm.backward, w_.model_stages(), "one per model stage");
    costs("llm.scale", w_.llm.scale, w_.microbatches, "one per microbatch");
    scaled_costs();
    lanes("llm.lanes", w_.llm.lanes);
    length("llm.lanes", w_.llm.lanes.size(), w_.model_stages(), "one per model stage");
    bytes("llm.message_bytes", w_.llm.message_bytes);
    bytes("llm.stash_bytes", w_.llm.stash_bytes);
    names();
    bool generators_follow = false;
    for (const PoolWorkload& pool : w_.pools) {
      if (pool.kind == PoolKind::encoder && generators_follow) fail(field(pool), "an encoder stands after a generator");
      generators_follow |= pool.kind == PoolKind::generator;
      check(pool);
    }
    seconds("transfer.latency", w_.transfer_latency);
    if (!(w_.transfer_bytes_per_second >= 0) || std::isinf(w_.transfer_bytes_per_second)) {
      fail("transfer.bytes_per_second", "is no rate", "0 means free");
    }
    bytes("memory.bytes_per_lane", w_.memory_bytes_per_lane);
    if (w_.resident_bytes.size() > static_cast<std::size_t>(w_.lane_count())) {
      fail("memory.resident_bytes", "has more entries than there are lanes", "one per lane");
    }
    for (std::size_t i = 0; i < w_.resident_bytes.size(); ++i) {
      bytes("memory.resident_bytes[" + std::to_string(i) + "]", w_.resident_bytes[i]);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& field, const std::string& what, const std::string& hint = "") const {
    throw Error(std::string(source_) + ":" + field, what, hint);
  }

  static std::string field(const PoolWorkload& pool) {
    return (pool.kind == PoolKind::encoder ? "encoders." : "generators.") + pool.name;
  }

  void seconds(const std::string& field, double value) const {
    if (!std::isfinite(value)) fail(field, "is not a finite number");
    if (value < 0) fail(field, "is negative");
    if (value > kMaxSeconds) fail(field, "is more than 1e9 seconds");
  }

  void bytes(const std::string& field, std::int64_t value) const {
    if (value < 0) fail(field, "is negative");
    if (value > kMaxBytes) fail(field, "is more than 2^53 bytes");
  }

  void length(const std::string& field, std::size_t got, std::int32_t want, const char* of) const {
    if (got != static_cast<std::size_t>(want)) {
      fail(field, "has " + std::to_string(got) + " entries, needs " + std::to_string(want), of);
    }
  }

  void costs(const std::string& field, const std::vector<double>& values, std::int32_t want, const char* of) const {
    length(field, values.size(), want, of);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!(values[i] >= 0 && values[i] <= kMaxSeconds)) seconds(field + "[" + std::to_string(i) + "]", values[i]);
    }
  }

  void scaled_costs() const {
    const double scale = *std::max_element(w_.llm.scale.begin(), w_.llm.scale.end());
    for (const auto* costs : {&w_.llm.forward, &w_.llm.backward}) {
      if (*std::max_element(costs->begin(), costs->end()) * scale > kMaxSeconds) {
        fail("llm.scale", "makes an operator longer than 1e9 seconds");
      }
    }
  }

  void lanes(const std::string& field, const std::vector<LaneId>& lanes) const {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].value < 0 || lanes[i].value >= kMaxLanes) {
        fail(field + "[" + std::to_string(i) + "]", std::to_string(lanes[i].value) + " is no lane", "0 to 65535");
      }
    }
  }

  void names() const {
    std::unordered_set<std::string_view> seen{"llm"};
    for (const PoolWorkload& pool : w_.pools) {
      if (pool.name.empty()) fail(field(pool), "a pool needs a name");
      if (pool.name.size() > 200) fail(field(pool).substr(0, 40), "a name of more than 200 bytes");
      for (unsigned char c : pool.name) {
        if (c < 0x20 || c == 0x7f)
          fail(pool.kind == PoolKind::encoder ? "encoders" : "generators", "a name with control characters");
      }
      if (pool.name == "llm") fail(field(pool), "a pool cannot be named llm");
      if (!seen.insert(pool.name).second) fail(field(pool), "two pools of this name");
    }
  }

  void check(const PoolWorkload& pool) const {
    const std::string at = field(pool);
    costs(at + ".forward", pool.forward, w_.microbatches, "one per microbatch");
    costs(at + ".backward", pool.backward, w_.microbatches, "one per microbatch");
    if (pool.lanes.empty()) fail(at + ".lanes", "a pool needs a member");
    if (pool.lanes.size() > static_cast<std::size_t>(kMaxLanes)) fail(at + ".lanes", "more than 65536 members");
    lanes(at + ".lanes", pool.lanes);
    length(at + ".owner", pool.owner.size(), w_.microbatches, "one per microbatch");
    for (std::size_t m = 0; m < pool.owner.size(); ++m) {
      if (pool.owner[m] < 0 || static_cast<std::size_t>(pool.owner[m]) >= pool.lanes.size()) {
        fail(at + ".owner[" + std::to_string(m) + "]", std::to_string(pool.owner[m]) + " is no member",
             "members are 0 to " + std::to_string(pool.lanes.size() - 1));
      }
    }
    length(at + ".absent", pool.absent.size(), w_.microbatches, "one per microbatch");
    inputs(pool, at + ".inputs");
    bytes(at + ".message_bytes", pool.message_bytes);
    bytes(at + ".stash_bytes", pool.stash_bytes);
    if (pool.in_flight_cap && *pool.in_flight_cap < 1) fail(at + ".in_flight_cap", "must be at least 1");
  }

  void inputs(const PoolWorkload& pool, const std::string& at) const {
    if (pool.kind == PoolKind::encoder) {
      if (!pool.inputs.empty()) fail(at, "an encoder reads raw data only");
      return;
    }
    if (pool.inputs.empty()) fail(at, "a generator reads the llm or an encoder");
    for (std::size_t i = 0; i < pool.inputs.size(); ++i) {
      const ModuleId input = pool.inputs[i];
      const bool known = input == kLlm || (input.valid() && input.index() <= w_.pools.size() &&
                                           w_.pool(input).kind == PoolKind::encoder);
      const std::string here = at + "[" + std::to_string(i) + "]";
      if (!known) fail(here, "is neither llm nor an encoder");
      if (std::count(pool.inputs.begin(), pool.inputs.end(), input) > 1) fail(here, "is listed twice");
    }
  }

  const Workload& w_;
  std::string_view source_;
};

}  // namespace

std::int32_t Workload::lane_count() const {
  std::int32_t count = 0;
  for (LaneId lane : llm.lanes) count = std::max(count, lane.value + 1);
  for (const PoolWorkload& pool : pools) {
    for (LaneId lane : pool.lanes) count = std::max(count, lane.value + 1);
  }
  return count;
}

bool Workload::has_backward(ModuleId module, MicrobatchId microbatch) const {
  const std::size_t m = microbatch.index();
  auto learns = [m](const PoolWorkload& pool) { return pool.trainable && !pool.absent[m]; };
  auto llm_learns = [&] {
    return llm.trainable || std::any_of(pools.begin(), pools.end(), [&](const PoolWorkload& pool) {
             return pool.kind == PoolKind::encoder && learns(pool);
           });
  };
  if (module == kLlm) return llm_learns();
  const PoolWorkload& own = pool(module);
  if (own.absent[m]) return false;
  return own.trainable || std::any_of(own.inputs.begin(), own.inputs.end(), [&](ModuleId input) {
           return input == kLlm ? llm_learns() : learns(pool(input));
         });
}

Workload make_workload(std::int32_t stages, std::int32_t chunks, std::int32_t microbatches, double forward,
                       double backward) {
  Workload workload;
  workload.stages = stages;
  workload.chunks = chunks;
  workload.microbatches = microbatches;
  validate_sizes(workload, "workload");
  const std::size_t model_stages = static_cast<std::size_t>(stages) * chunks;
  workload.llm.forward.assign(model_stages, forward / chunks);
  workload.llm.backward.assign(model_stages, backward / chunks);
  workload.llm.scale.assign(microbatches, 1.0);
  for (std::size_t s = 0; s < model_stages; ++s) workload.llm.lanes.emplace_back(s % stages);
  return workload;
}

PoolWorkload make_pool(const Workload& workload, std::string name, PoolKind kind, double forward, double backward) {
  PoolWorkload pool;
  pool.name = std::move(name);
  pool.kind = kind;
  pool.forward.assign(workload.microbatches, forward);
  pool.backward.assign(workload.microbatches, backward);
  for (std::int32_t lane = 0; lane < workload.stages; ++lane) pool.lanes.emplace_back(lane);
  for (std::int32_t m = 0; m < workload.microbatches; ++m) pool.owner.push_back(m % workload.stages);
  pool.absent.assign(workload.microbatches, 0);
  if (kind == PoolKind::generator) pool.inputs.push_back(kLlm);
  return pool;
}

void validate_sizes(const Workload& workload, std::string_view source) {
  Checker(workload, source).sizes();
}

void validate(const Workload& workload, std::string_view source) {
  Checker(workload, source).run();
}

}  // namespace nestor::scheduler
