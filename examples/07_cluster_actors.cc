// 07: actors of one's own on a cluster. A server of data and a pool of evaluators live in processes of the cluster;
// this program calls them as it would in one process, kills their process, and finds them again.
//
//   example_07_cluster_actors                     starts a cluster of its own, works with it, takes it down
//   example_07_cluster_actors up my_cluster.yaml  is the whole nestor program; its clusters know these actors
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <torch/torch.h>
#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/cluster.h>
#include <nestor/launch/run.h>

using namespace std::chrono_literals;

// Serves batches. What other processes may call is listed in describe(); arguments and results are values: numbers,
// strings, containers, tensors, handles, protobuf messages, types that list their fields.
class DataServer : public nestor::Actor {
 public:
  using SpawnArguments = std::tuple<std::int64_t>;  // what the constructor takes, when another process spawns it
  explicit DataServer(std::int64_t width = 1) : width_(width) {}
  static void describe(nestor::MethodTable<DataServer>& table) {
    table.type("data_server").method("batch", &DataServer::batch).method("served", &DataServer::served);
  }
  torch::Tensor batch(std::int64_t number) {
    ++served_;
    return torch::full({4, width_}, static_cast<double>(number));
  }
  std::int64_t served() const { return served_; }

 private:
  std::int64_t width_, served_ = 0;
};

// Scores a batch that it fetches itself: actors call actors, wherever they live.
class Evaluator : public nestor::Actor {
 public:
  static void describe(nestor::MethodTable<Evaluator>& table) {
    table.type("evaluator").method("score", &Evaluator::score);
  }
  double score(std::int64_t batch) {
    if (!data_ || !data_.alive()) data_ = nestor::Cluster(runtime()).find<DataServer>("data");
    return data_.call(&DataServer::batch, batch).get().mean().item<double>();
  }

 private:
  nestor::Handle<DataServer> data_;
};

// Lives in this process and hears of deaths in others.
class Watcher : public nestor::Actor {
 public:
  void watch(const nestor::Handle<DataServer>& other) { monitor(other); }
  nestor::Future<std::string> death() { return death_.future(); }
  void on_down(const nestor::Down& down) override { death_.set_value(down.actor + ": " + down.cause); }

 private:
  nestor::Promise<std::string> death_;
};

void work(const std::string& name) {
  nestor::Cluster cluster(name);

  // Where an actor lives is the cluster's choice, by what it needs. A process that dies is made anew, and its actors
  // with it, as often as they may restart.
  nestor::ActorSpec spec{.name = "data", .resources = {{"cpus", 0.5}}, .max_restarts = 3};
  auto data = cluster.spawn<DataServer>(spec, 8);
  std::printf("data:    a batch of %ld numbers\n", static_cast<long>(data.call(&DataServer::batch, 1).get().numel()));

  // A pool shares inputs out among its members, wherever they live.
  nestor::ActorSpec member{.name = "eval", .placement = nestor::Place::spread, .max_restarts = 3};
  {
    auto pool = cluster.pool<Evaluator>(member, 2);
    for (double score : pool.map(&Evaluator::score, std::vector<std::int64_t>{1, 2, 3, 4}))
      std::printf("pool:    score %.1f\n", score);
  }

  // What no host can hold is refused at once, and so is a type that the program did not register.
  try {
    cluster.spawn<DataServer>({.name = "huge", .resources = {{"gpu_memory", 80}}}, 8);
  } catch (const nestor::actors::Error& error) {
    std::printf("error:   %s\n", error.what());
  }
  try {
    cluster.spawn<Watcher>({.name = "stranger"});
  } catch (const nestor::actors::Error& error) {
    std::printf("error:   %s\n", error.what());
  }

  // Its process is killed: who watches hears the cause, and the name leads to its next life.
  auto watcher = cluster.runtime().spawn<Watcher>("watcher");
  watcher.call(&Watcher::watch, data).get();
  auto death = watcher.call(&Watcher::death);
  for (const auto& row : cluster.actors())
    if (row.name == "data") ::kill(static_cast<pid_t>(row.pid), SIGKILL);
  std::printf("death:   %s\n", death.get_for(30s).c_str());
  data = cluster.find<DataServer>("data");
  std::printf("again:   served %ld batches since its restart\n",
              static_cast<long>(data.call(&DataServer::served).get()));
  for (const auto& row : cluster.actors())
    if (row.name == "data")
      std::printf("list:    %s is %s, restarted %d time(s)\n", row.name.c_str(), row.state.c_str(), row.restarts);
}

int main(int argc, char** argv) {
  nestor::ActorTypes types;
  types.add<DataServer>().add<Evaluator>();
  if (argc > 1) return nestor::run(argc, argv, nullptr, types);

  const auto folder = std::filesystem::temp_directory_path() / ("nestor_example_07_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  ::setenv("NESTOR_HOME", (folder / "home").c_str(), 1);
  const std::string file = folder / "cluster.yaml";
  std::ofstream(file) << "format: nestor.cluster/1\nname: example\nhosts: [{host: 127.0.0.1, lanes: 1}]\n";
  const auto nestor = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "nestor");
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    return nestor::run(static_cast<int>(arguments.size()), arguments.data(), nullptr, types);
  };
  int code = nestor({"up", file});
  if (code == 0) {
    try {
      work("example");
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      code = 1;
    }
    nestor({"down", "example"});
  }
  std::filesystem::remove_all(folder);
  return code;
}
