// What a call of a user's actor costs: in one process, between two processes of a cluster, and from nothing to the
// first call of a cluster of two workers. against_ray.py runs it beside Ray.
//
//   perf_calls [in_process | cluster]...       prints lines "NAME VALUE UNIT"; all where nothing is named
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <torch/torch.h>
#include <unistd.h>

#include <nestor/launch/cluster/cluster.h>
#include <nestor/launch/run.h>

namespace {

using Clock = std::chrono::steady_clock;

class Echo : public nestor::Actor {
 public:
  static void describe(nestor::MethodTable<Echo>& table) {
    table.type("echo").method("ping", &Echo::ping).method("size", &Echo::size);
  }
  std::int64_t ping(std::int64_t number) { return number; }
  std::int64_t size(const torch::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }
};

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void print(const std::string& name, double value, const char* unit) {
  std::printf("%s %.6g %s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

void measure(const std::string& where, const nestor::Handle<Echo>& echo) {
  constexpr int kSync = 2000, kPipelined = 20000;
  for (int i = 0; i < 200; ++i) echo.call(&Echo::ping, i).get();
  const double sync = seconds_of([&] {
    for (int i = 0; i < kSync; ++i) echo.call(&Echo::ping, i).get();
  });
  print(where + "_sync", kSync / sync, "calls/s");
  const double pipelined = seconds_of([&] {
    std::vector<nestor::Future<std::int64_t>> futures;
    futures.reserve(kPipelined);
    for (int i = 0; i < kPipelined; ++i) futures.push_back(echo.call(&Echo::ping, i));
    for (auto& future : futures) future.get();
  });
  print(where + "_pipelined", kPipelined / pipelined, "calls/s");
}

void in_process() {
  nestor::Runtime runtime;
  measure("in_process", runtime.spawn<Echo>("echo"));
}

void on_cluster(const nestor::ActorTypes& types) {
  const auto folder = std::filesystem::temp_directory_path() / ("nestor_perf_calls_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  ::setenv("NESTOR_HOME", (folder / "home").c_str(), 1);
  const std::string file = folder / "cluster.yaml";
  std::ofstream(file) << "format: nestor.cluster/1\nname: perf\nhosts: [{host: 127.0.0.1, lanes: 2}]\n";
  const auto nestor = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "nestor");
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    return nestor::run(static_cast<int>(arguments.size()), arguments.data(), nullptr, types);
  };
  try {
    const auto start = Clock::now();
    if (nestor({"up", file}) != 0) throw std::runtime_error("no cluster");
    nestor::Cluster cluster("perf");
    const auto echo = cluster.spawn<Echo>({.name = "echo"});
    echo.call(&Echo::ping, 1).get();
    print("start_to_first_call", std::chrono::duration<double>(Clock::now() - start).count(), "s");
    measure("between_processes", echo);
    for (const std::int64_t mebibytes : {1, 8, 64, 300}) {
      const auto tensor = torch::zeros({mebibytes << 20}, torch::kUInt8);
      const int calls = mebibytes < 64 ? 20 : 4;
      echo.call(&Echo::size, tensor).get();
      const double taken = seconds_of([&] {
        for (int i = 0; i < calls; ++i) echo.call(&Echo::size, tensor).get();
      });
      print("argument_" + std::to_string(mebibytes) + "MiB", calls * static_cast<double>(mebibytes << 20) / taken / 1e9,
            "GB/s");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "perf_calls: %s\n", error.what());
  }
  nestor({"down", "perf"});
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  nestor::ActorTypes types;
  types.add<Echo>();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "node") return nestor::run(argc, argv, nullptr, types);
  for (const auto& word : words.empty() ? std::vector<std::string>{"cluster", "in_process"} : words) {
    if (word == "in_process") in_process();
    if (word == "cluster") on_cluster(types);
  }
  return 0;
}
