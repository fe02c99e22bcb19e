#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/scheduler/sweep.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::scheduler {
namespace {

constexpr std::size_t kMost = 100'000;

void plan_row(const Workload& workload, SweepRow& row) {
  row.lanes = workload.lane_count();
  PlanRequest request;
  request.policy = row.configuration.policy;
  Plan plan;
  try {
    plan = make_plan(workload, request);
  } catch (const MemoryError& error) {
    row.verdict = SweepVerdict::memory;
    row.over_bytes = error.needed() - workload.memory_bytes_per_lane;
    row.why =
        fmt::format("memory: {:.4g} GB over the cap of {:.4g} GB on lane {}", static_cast<double>(row.over_bytes) / 1e9,
                    static_cast<double>(workload.memory_bytes_per_lane) / 1e9, error.lane().value);
    row.peak_bytes = error.needed();
    return;
  } catch (const Error& error) {
    row.verdict = SweepVerdict::policy;
    row.why = error.what();
    return;
  }
  const Verdict verdict = verify(plan);
  if (!verdict.sound()) {
    row.verdict = SweepVerdict::unsound;
    row.why = verdict.faults.front().where + ": " + verdict.faults.front().what;
    return;
  }
  const Simulation simulation = simulate(plan);
  row.makespan = simulation.makespan;
  row.per_microbatch = simulation.makespan / workload.microbatches;
  row.bubble = simulation.bubble;
  row.extra_warmup = plan.extra_warmup;
  for (const LaneReport& lane : simulation.lanes) row.peak_bytes = std::max(row.peak_bytes, lane.peak_bytes);
  for (const auto& lanes : simulation.in_flight) row.in_flight.push_back(*std::max_element(lanes.begin(), lanes.end()));
}

void run_row(const WorkloadOf& workload_of, const SweepAxes& axes, SweepRow& row) {
  try {
    Workload workload = workload_of(row.configuration.shape);
    if (axes.memory_bytes) workload.memory_bytes_per_lane = *axes.memory_bytes;
    plan_row(workload, row);
  } catch (const Error& error) {
    row.verdict = SweepVerdict::shape;
    row.why = error.what();
  } catch (const std::exception& error) {  // out of memory: a configuration must not take the sweep with it
    row.verdict = SweepVerdict::shape;
    row.why = error.what();
  }
}

/// Every way to choose one size for each pool.
std::vector<std::vector<std::int32_t>> pool_sizes(const SweepAxes& axes) {
  std::vector<std::vector<std::int32_t>> all{{}};
  for (const auto& sizes : axes.pools) {
    std::vector<std::vector<std::int32_t>> longer;
    for (const auto& prefix : all) {
      for (const std::int32_t size : sizes.empty() ? std::vector<std::int32_t>{0} : sizes) {
        longer.push_back(prefix);
        longer.back().push_back(size);
        if (longer.size() > kMost) throw Error("sweep", "has more than 100000 configurations", "name fewer values");
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::vector<Configuration> configurations(const SweepAxes& axes) {
  const auto pools = pool_sizes(axes);
  std::size_t count = 1;
  for (const std::size_t values :
       {axes.stages.size(), axes.chunks.size(), axes.microbatches.size(), axes.policies.size(), pools.size(),
        axes.own_devices.size(), axes.recompute.size()}) {
    if (values > kMost / std::max<std::size_t>(count, 1))
      throw Error("sweep", "has more than 100000 configurations", "name fewer values");
    count *= values;
  }
  std::vector<Configuration> all;
  for (const std::int32_t stages : axes.stages)
    for (const std::int32_t chunks : axes.chunks)
      for (const std::int32_t microbatches : axes.microbatches)
        for (const auto& sizes : pools)
          for (const std::optional<bool>& own : axes.own_devices)
            for (const bool recompute : axes.recompute)
              for (const std::string& policy : axes.policies)
                all.push_back({{stages, chunks, microbatches, own, sizes, recompute, policy == "coupled"}, policy});
  return all;
}

std::string_view to_string(SweepVerdict verdict) {
  switch (verdict) {
    case SweepVerdict::fits:
      return "fits";
    case SweepVerdict::memory:
      return "memory";
    case SweepVerdict::shape:
      return "shape";
    case SweepVerdict::policy:
      return "policy";
    case SweepVerdict::unsound:
      return "unsound";
  }
  return "?";
}

std::vector<SweepRow> sweep(const WorkloadOf& workload_of, const SweepAxes& axes, std::int32_t threads,
                            const std::function<void(std::size_t, std::size_t)>& on_progress) {
  std::vector<SweepRow> rows;
  for (Configuration& configuration : configurations(axes)) {
    rows.emplace_back();
    rows.back().configuration = std::move(configuration);
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < rows.size(); i = next++) {
      run_row(workload_of, axes, rows[i]);
      if (!on_progress) continue;
      const std::lock_guard lock(mutex);
      on_progress(++done, rows.size());
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::int32_t i = 1; i < threads; ++i) workers.emplace_back(work);
    work();
  }
  std::stable_sort(rows.begin(), rows.end(), [](const SweepRow& a, const SweepRow& b) {
    const bool a_fits = a.verdict == SweepVerdict::fits, b_fits = b.verdict == SweepVerdict::fits;
    if (a_fits != b_fits) return a_fits;
    if (!a_fits) return false;
    if (a.per_microbatch != b.per_microbatch) return a.per_microbatch < b.per_microbatch;
    return a.peak_bytes < b.peak_bytes;
  });
  return rows;
}

}  // namespace nestor::scheduler
