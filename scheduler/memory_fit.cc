#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/simulator.h>

namespace nestor::scheduler {
namespace {

/// Plans tried before the search gives up, so that a hopeless cap costs a bounded time.
constexpr int kTries = 48;

struct Try {
  Plan plan;
  Simulation simulation;
  std::int32_t lane = -1;  ///< the one that is furthest over the cap; -1: none
  std::int64_t needed = 0;
  double at = 0;
};

/// The search for a plan within the cap, one knob at a time.
class Fit {
 public:
  Fit(const Workload& workload, const PlanRequest& request)
      : workload_(workload), request_(request), warmup_fixed_(request.extra_warmup) {
    request_.keep_memory_cap = false;
    for (const PoolWorkload& pool : workload.pools) given_caps_.push_back(pool.in_flight_cap);
  }

  Plan run() {
    attempt();
    while (best_->lane >= 0) {
      const bool more = tries_ < kTries && !resident_alone() &&
                        (lower_caps() || lower_warmup() || (request_.may_recompute && recompute()));
      if (!more) throw MemoryError(workload_, request_.policy, LaneId{best_->lane}, best_->needed, best_->at);
      attempt();
    }
    for (std::size_t p = 0; p < given_caps_.size(); ++p) {  // ours were means to an end, and a policy may exceed them
      best_->plan.workload.pools[p].in_flight_cap = given_caps_[p];
    }
    return std::move(best_->plan);
  }

 private:
  /// Plans with the knobs as they stand. What a policy refuses changes nothing.
  void attempt() {
    ++tries_;
    Try next;
    try {
      next.plan = make_plan(workload_, request_);
    } catch (const Error&) {
      if (!best_) throw;
      return;
    }
    next.simulation = simulate(next.plan);
    for (std::size_t lane = 0; lane < next.simulation.lanes.size(); ++lane) {
      const LaneReport& report = next.simulation.lanes[lane];
      if (!report.over_memory || report.peak_bytes <= next.needed) continue;
      next.lane = static_cast<std::int32_t>(lane);
      next.needed = report.peak_bytes;
      const auto peak = std::max_element(report.bytes.begin(), report.bytes.end(),
                                         [](const BytesPoint& a, const BytesPoint& b) { return a.bytes < b.bytes; });
      next.at = peak->at;
    }
    if (!best_ || next.lane < 0 || next.needed < best_->needed) best_ = std::move(next);
  }

  bool resident_alone() const {
    const auto lane = static_cast<std::size_t>(best_->lane);
    return lane < workload_.resident_bytes.size() && workload_.resident_bytes[lane] > workload_.memory_bytes_per_lane;
  }

  static bool has_freedom(const std::string& policy) { return policy != "coupled" && policy != "decoupled"; }

  /// One activation less for the pool with most bytes in flight, of those with a member on the lane that is over, or
  /// (its messages wait there) of all encoders where the lane runs the first stage.
  bool lower_caps() {
    if (!has_freedom(request_.policy)) return false;
    std::int64_t most = 0;
    PoolWorkload* fattest = nullptr;
    std::int32_t lowered = 0;
    for (std::size_t p = 0; p < workload_.pools.size(); ++p) {
      PoolWorkload& pool = workload_.pools[p];
      const auto& peaks = best_->plan.in_flight[p + 1];
      const bool here = peaks[static_cast<std::size_t>(best_->lane)] > 0;
      const bool waits = pool.kind == PoolKind::encoder && workload_.llm.lanes.front().value == best_->lane;
      if (!here && !waits) continue;
      const double peak = *std::max_element(peaks.begin(), peaks.end());
      const auto now = std::min(pool.in_flight_cap.value_or(1 << 20), static_cast<std::int32_t>(peak));
      if (now <= 1) continue;
      const std::int64_t bytes = static_cast<std::int64_t>(peak) * (pool.stash_bytes + pool.message_bytes);
      if (bytes <= most) continue;
      most = bytes;
      fattest = &pool;
      lowered = now - 1;
    }
    if (!fattest) return false;
    fattest->in_flight_cap = lowered;
    return true;
  }

  /// Extra warm-up keeps LLM activations for the generators' sake.
  bool lower_warmup() {
    const std::int32_t now = warmup_fixed_ ? 0 : request_.extra_warmup.value_or(best_->plan.extra_warmup);
    if (!has_freedom(request_.policy) || now == 0) return false;
    request_.extra_warmup = now - std::max(1, now / 4);
    return true;
  }

  bool recompute() {
    std::int64_t most = 0;
    bool* fattest = nullptr;
    const auto look = [&](auto& module, std::size_t index) {
      const auto& peaks = best_->plan.in_flight[index];
      const double units = peaks[static_cast<std::size_t>(best_->lane)] * (index == 0 ? workload_.chunks : 1);
      const auto bytes = static_cast<std::int64_t>(units * static_cast<double>(module.stash_bytes));
      if (module.recompute || bytes <= most) return;
      most = bytes;
      fattest = &module.recompute;
    };
    look(workload_.llm, 0);
    for (std::size_t p = 0; p < workload_.pools.size(); ++p) look(workload_.pools[p], p + 1);
    if (!fattest) return false;
    *fattest = true;
    return true;
  }

  Workload workload_;
  PlanRequest request_;
  const bool warmup_fixed_;
  std::vector<std::optional<std::int32_t>> given_caps_;
  std::optional<Try> best_;
  int tries_ = 0;
};

}  // namespace

MemoryError::MemoryError(const Workload& workload, const std::string& policy, LaneId lane, std::int64_t needed,
                         double at)
    : Error("memory.bytes_per_lane",
            fmt::format("'{}' needs {} bytes on lane {} ({:.6g} s into the step), the cap is {}", policy, needed,
                        lane.value, at, workload.memory_bytes_per_lane),
            lane.index() < workload.resident_bytes.size() &&
                    workload.resident_bytes[lane.index()] > workload.memory_bytes_per_lane
                ? "parameters, gradients and optimizer state alone are more"
                : "more lanes, recompute, or smaller microbatches need less"),
      lane_(lane),
      needed_(needed) {}

Plan plan_within_memory(const Workload& workload, const PlanRequest& request) {
  return Fit(workload, request).run();
}

}  // namespace nestor::scheduler
