// schedule_speed [--runs N]: CPU seconds and memory of planning, lowering, verification (transport `single`) and
// simulation on one core. Each case runs in a process of its own, so that its peak memory is its own; the fastest of N
// runs counts (default 3). The last column relates CPU time to that of sorting a million numbers on the same machine:
// those ratios are recorded in baseline.json.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/scheduler/verifier.h>
#include <nestor/tests/tools/shaped_workload.h>

namespace {

using namespace nestor::scheduler;

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Case {
  const char* policy;
  std::int32_t P, V, M;
  bool generator;
  bool unequal;
};

struct Measured {
  double plan = 0, verify = 0, simulate = 0;
  std::int64_t operators = 0;
  double bytes = 0;  // per compute operator
  double total() const { return plan + verify + simulate; }
};

Measured measure(const Case& c) {
  Workload workload = nestor::tests::log_normal_workload(c.P, c.V, c.M, c.generator, 1);
  if (!c.unequal) {
    for (PoolWorkload& pool : workload.pools) {
      std::fill(pool.forward.begin(), pool.forward.end(), 1.5);
      std::fill(pool.backward.begin(), pool.backward.end(), 3.0);
    }
  }
  PlanRequest request;
  request.policy = c.policy;
  verify(make_plan(nestor::tests::log_normal_workload(2, 1, 4, true, 1), request));  // the code itself is in memory now
  Measured result;
  const long before = peak_kilobytes();
  double now = cpu_seconds();
  const auto lap = [&] { return cpu_seconds() - std::exchange(now, cpu_seconds()); };
  const Plan plan = make_plan(workload, request);
  result.plan = lap();
  if (!verify(plan, Transport::single).sound()) std::abort();
  result.verify = lap();
  if (simulate(plan).makespan != plan.makespan) std::abort();
  result.simulate = lap();
  for (const Operator& op : plan.table.operators) result.operators += op.is_compute();
  result.bytes = 1024.0 * static_cast<double>(peak_kilobytes() - before) / static_cast<double>(result.operators);
  return result;
}

/// One run in a child process.
Measured measure_apart(const Case& c) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    const Measured result = measure(c);
    _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  Measured result;
  const bool got = child > 0 && read(ends[0], &result, sizeof result) == sizeof result;
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  if (!got) std::abort();
  return result;
}

double sorting_seconds() {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> numbers(1'000'000);
  double best = 1e9;
  for (int run = 0; run < 3; ++run) {
    for (auto& number : numbers) number = random();
    const double begin = cpu_seconds();
    std::sort(numbers.begin(), numbers.end());
    best = std::min(best, cpu_seconds() - begin);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc == 3 && std::strcmp(argv[1], "--runs") == 0 ? std::max(1, std::atoi(argv[2])) : 3;
  const Case cases[] = {
      {"nested", 64, 4, 32, false, false},   {"nested", 64, 4, 256, false, false},
      {"nested", 64, 4, 512, false, false},  {"nested", 64, 4, 2048, false, false},
      {"coupled", 64, 4, 512, false, false}, {"filled", 64, 4, 512, false, false},
      {"filled", 8, 2, 64, false, true},     {"filled", 8, 2, 64, true, true},
  };
  const double unit = sorting_seconds();
  std::printf("sorting a million numbers: %.4f s\n", unit);
  std::printf("%-42s %9s %8s %8s %8s %8s %7s %7s %8s\n", "case", "operators", "plan", "verify", "simulate", "total s",
              "ns/op", "B/op", "x sort");
  for (const Case& c : cases) {
    Measured best;
    for (int run = 0; run < runs; ++run) {
      const Measured once = measure_apart(c);
      if (run == 0 || once.total() < best.total()) best = once;
    }
    char name[80];
    std::snprintf(name, sizeof name, "%s P%d V%d M%d %s%s", c.policy, c.P, c.V, c.M,
                  c.generator ? "encoder+generator" : "encoder", c.unequal ? " unequal" : "");
    std::printf("%-42s %9lld %8.4f %8.4f %8.4f %8.4f %7.0f %7.0f %8.3f\n", name, static_cast<long long>(best.operators),
                best.plan, best.verify, best.simulate, best.total(),
                1e9 * best.total() / static_cast<double>(best.operators), best.bytes, best.total() / unit);
  }
  return 0;
}
