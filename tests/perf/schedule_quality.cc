// schedule_quality [skewed N] [absent N] [even N] [unequal N]: how good the planner's schedules are, as distributions.
// Without arguments all four with the numbers of docs/schedule.md. Deterministic but for the CPU times it prints.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/tests/tools/shaped_workload.h>

namespace {

using namespace nestor::scheduler;
using namespace nestor::tests;

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

Plan plan(const Workload& workload, const char* policy) {
  PlanRequest request;
  request.policy = policy;
  return make_plan(workload, request);
}

std::string shape_of(const Workload& w) {
  std::string text =
      "P" + std::to_string(w.stages) + " V" + std::to_string(w.chunks) + " M" + std::to_string(w.microbatches);
  for (const PoolWorkload& pool : w.pools) {
    text += " " + pool.name + (pool.trainable ? "" : " frozen") + " on";
    for (const LaneId lane : pool.lanes) text += " " + std::to_string(lane.value);
    text += ";";
  }
  return text + (w.llm.trainable ? "" : " llm frozen");
}

/// Prints quantiles of ratios.
class Distribution {
 public:
  void add(double value) { values_.push_back(value); }
  double mean() const {
    double sum = 0;
    for (const double value : values_) sum += value;
    return values_.empty() ? 0 : sum / static_cast<double>(values_.size());
  }
  double worst() const { return *std::max_element(values_.begin(), values_.end()); }
  void print(const char* what) {
    std::sort(values_.begin(), values_.end());
    const auto at = [&](double q) {
      return values_[static_cast<std::size_t>(q * static_cast<double>(values_.size() - 1))];
    };
    std::printf("%s: %zu, mean %.4f, median %.4f, 90%% %.4f, 99%% %.4f, worst %.4f\n", what, values_.size(), mean(),
                at(0.5), at(0.9), at(0.99), at(1));
  }

 private:
  std::vector<double> values_;
};

/// `nested` over `decoupled` on random pools, which must keep to 4 * ceil(P / size) activations a member.
void skewed(int count, bool absences) {
  const double report = absences ? 1.05 : 1.03;
  Distribution ratio, seconds, llm;
  int above = 0, over = 0, above_coupled = 0, coupled = 0;
  for (int seed = 1; seed <= count; ++seed) {
    const Workload w = skewed_workload(static_cast<std::uint64_t>(seed), absences);
    const double decoupled = plan(w, "decoupled").makespan;
    const double begin = cpu_seconds();
    const Plan nested = plan(w, "nested");
    seconds.add(1e3 * (cpu_seconds() - begin));
    ratio.add(nested.makespan / decoupled);
    const double share = share_of_member_bound(nested);
    if (share > 1) ++over, std::printf("  seed %d: a member holds %.2f times its bound\n", seed, share);
    bool is_coupled = true;
    for (const PoolWorkload& pool : w.pools) {
      const LaneId lane = pool.kind == PoolKind::encoder ? w.llm.lanes.front() : w.llm.lanes.back();
      is_coupled &= pool.lanes == std::vector<LaneId>{lane};
    }
    if (is_coupled) {
      ++coupled;
      above_coupled += nested.makespan > plan(w, "coupled").makespan;
    }
    if (nested.makespan > report * decoupled) {
      ++above;
      std::printf("  seed %d: %.4f (D %d), %s\n", seed, nested.makespan / decoupled, nested.extra_warmup,
                  shape_of(w).c_str());
    }
  }
  ratio.print(absences ? "nested over decoupled, absences" : "nested over decoupled, skewed shapes");
  seconds.print("  CPU milliseconds a plan");
  std::printf("  above %.2f: %d; over the bound of a member: %d; above coupled on its lanes: %d of %d\n", report, above,
              over, above_coupled, coupled);
}

/// `filled` over the work bound, equal costs, one member a lane, M = 4P.
void even(int count) {
  for (const bool generator : {false, true}) {
    Distribution filled_ratio, nested_ratio, reachable, seconds;
    int longer = 0;
    std::mt19937_64 random(7);
    const auto cost = [&] { return 0.25 * static_cast<double>(1 + random() % 16); };
    for (int i = 0; i < count; ++i) {
      const auto P = static_cast<std::int32_t>(2 + random() % 7), V = static_cast<std::int32_t>(1 + random() % 3);
      const double forward = cost(), backward = cost();
      Workload w = make_workload(P, V, 4 * P, forward, backward);
      const double ef = cost(), eb = cost(), gf = cost(), gb = cost();
      w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, ef, eb));
      if (generator) w.pools.push_back(make_pool(w, "image", PoolKind::generator, gf, gb));
      const double begin = cpu_seconds();
      const Plan filled = plan(w, "filled");
      seconds.add(1e3 * (cpu_seconds() - begin));
      const Plan nested = plan(w, "nested");
      const double bound = simulate(nested).work_bound;
      filled_ratio.add(filled.makespan / bound);
      nested_ratio.add(nested.makespan / bound);
      Workload alone = w;  // the backbone's bubble stays where there is too little to fill it with
      alone.pools.clear();
      reachable.add(filled.makespan / std::max(bound, plan(alone, "nested").makespan));
      longer += filled.makespan > nested.makespan;
    }
    std::printf("M = 4P, %s:\n", generator ? "encoder and generator" : "encoder");
    filled_ratio.print("  filled over work bound");
    nested_ratio.print("  nested over work bound");
    reachable.print("  filled over the larger of work bound and backbone");
    seconds.print("  CPU milliseconds of filled");
    std::printf("  filled longer than nested: %d\n", longer);
  }
}

/// Log-normal costs, over mean work of a lane plus the backbone's bubble; the better of nested and filled.
void unequal(int seeds) {
  for (const bool generator : {false, true}) {
    for (const std::int32_t P : {4, 8}) {
      for (const std::int32_t M : {64, 256}) {
        for (const std::int32_t V : {1, 2}) {
          Distribution nested_ratio, filled_ratio, better, seconds;
          std::int32_t held = 0, D = 0, generator_held = 0;
          for (int seed = 0; seed < seeds; ++seed) {
            const Workload w = log_normal_workload(P, V, M, generator, 1000 + static_cast<std::uint64_t>(seed));
            const double bound = mean_work_bound(w), begin = cpu_seconds();
            const Plan filled = plan(w, "filled");
            seconds.add(1e3 * (cpu_seconds() - begin));
            const Plan nested = plan(w, "nested");
            nested_ratio.add(nested.makespan / bound);
            filled_ratio.add(filled.makespan / bound);
            better.add(std::min(nested.makespan, filled.makespan) / bound);
            const auto peaks = held_by_members(filled);
            for (const std::int32_t peak : peaks[0]) held = std::max(held, peak);
            for (const std::int32_t peak : peaks.back()) generator_held = std::max(generator_held, peak);
            D = std::max(D, filled.extra_warmup);
          }
          std::printf(
              "log-normal P%d V%d M%-3d %s: better mean %.4f worst %.4f; filled %.4f, nested %.4f; D <= %d, held "
              "<= %d first pool, %d last; %.2f ms (worst %.2f) of filled\n",
              P, V, M, generator ? "encoder+generator" : "encoder", better.mean(), better.worst(), filled_ratio.mean(),
              nested_ratio.mean(), D, held, generator_held, seconds.mean(), seconds.worst());
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, int> counts;
  for (int i = 1; i + 1 < argc; i += 2) counts[argv[i]] = std::atoi(argv[i + 1]);
  if (argc == 1) counts = {{"skewed", 500}, {"absent", 200}, {"even", 200}, {"unequal", 20}};
  if (argc % 2 == 0) {
    std::fprintf(stderr, "usage: schedule_quality [skewed N] [absent N] [even N] [unequal N]\n");
    return 2;
  }
  if (counts["skewed"] > 0) skewed(counts["skewed"], false);
  if (counts["absent"] > 0) skewed(counts["absent"], true);
  if (counts["even"] > 0) even(counts["even"]);
  if (counts["unequal"] > 0) unequal(counts["unequal"]);
  return 0;
}
