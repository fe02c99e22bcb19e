// random_plans FOLDER COUNT: plans of random workloads by every policy in turn, and nested plans of the golden
// workloads, for the checker that shares no code with the project (check_plans_test.py).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <nestor/scheduler/planner.h>
#include <nestor/tests/tools/random_workload.h>

namespace {

using namespace nestor::scheduler;

void write(const std::filesystem::path& path, const Workload& workload, std::string_view policy) {
  PlanRequest request;
  request.policy = policy;
  std::ofstream file(path);
  file << write_plan(make_plan(workload, request));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: random_plans FOLDER COUNT\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const auto policies = policy_names();
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    const std::string_view policy = policies[i % policies.size()];
    const std::string name = "random-" + std::to_string(i) + "-" + std::string(policy) + ".json";
    write(folder / name, nestor::tests::random_workload(10000 + i), policy);
  }
  for (const auto& entry : std::filesystem::directory_iterator(NESTOR_TEST_DATA "/golden")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const Workload workload = read_workload(text.str(), entry.path().string());
    write(folder / ("golden-" + entry.path().stem().string() + ".json"), workload, "nested");
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
