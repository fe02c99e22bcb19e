// A user's program with actors of its own, for user_actors_test.py: the nestor program, and `client CLUSTER`, a driver
// that does what it reads on standard input, one command a line, one answer a line.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include <torch/torch.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/cluster.h>
#include <nestor/launch/run.h>

namespace {

class Counter : public nestor::Actor {
 public:
  using SpawnArguments = std::tuple<std::int64_t>;
  explicit Counter(std::int64_t start = 0) : value_(start) {
    if (start < 0) throw std::invalid_argument("counts from 0 up");
  }
  static void describe(nestor::MethodTable<Counter>& table) {
    table.type("counter")
        .method("add", &Counter::add)
        .method("sum", &Counter::sum)
        .method("ones", &Counter::ones)
        .method("leave", &Counter::leave)
        .method("crash", &Counter::crash)
        .method("relay", &Counter::relay);
  }
  std::int64_t add(std::int64_t by) { return value_ += by; }
  double sum(const torch::Tensor& tensor) { return tensor.sum().item<double>(); }
  torch::Tensor ones(std::int64_t mebibytes) { return torch::ones({mebibytes << 18}); }
  void leave() { quit("it had enough"); }
  void crash(std::int64_t code) {
    if (code == 0) std::abort();
    std::_Exit(static_cast<int>(code));
  }
  std::int64_t relay(nestor::Handle<Counter> other, std::int64_t by) { return other.call(&Counter::add, by).get(); }

 private:
  std::int64_t value_;
};

class Unregistered : public nestor::Actor {};

class Watcher : public nestor::Actor {
 public:
  void watch(const nestor::Handle<Counter>& other) { monitor(other); }
  void on_down(const nestor::Down& down) override {
    std::cout << "down " + down.actor + ": " + down.cause + "\n" << std::flush;
  }
};

class Client {
 public:
  explicit Client(const std::string& name) : cluster_(name), watcher_(cluster_.runtime().spawn<Watcher>("watcher")) {}

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string what, name;
    words >> what >> name;
    if (what == "spawn") {
      nestor::ActorSpec spec{.name = name};
      std::int64_t start = 0;
      words >> start >> spec.max_restarts >> spec.detached >> spec.resources["cpus"] >> spec.host;
      handles_[name] = cluster_.spawn<Counter>(spec, start);
      return "ok";
    }
    if (what == "spawn_unregistered") return cluster_.spawn<Unregistered>({.name = name}).name();
    if (what == "find") {
      handles_[name] = cluster_.find<Counter>(name);
      return "ok";
    }
    if (what == "kill") {
      cluster_.kill(name, "the test says so");
      return "ok";
    }
    const auto& counter = handles_.at(name);
    std::int64_t number = 0;
    words >> number;
    if (what == "add") return std::to_string(counter.call(&Counter::add, number).get());
    if (what == "sum") return std::to_string(counter.call(&Counter::sum, torch::ones({number << 18})).get() / 262144);
    if (what == "ones") return std::to_string(counter.call(&Counter::ones, number).get().sum().item<double>() / 262144);
    if (what == "crash") counter.call(&Counter::crash, number).get();
    if (what == "leave") counter.call(&Counter::leave).get();
    if (what == "watch") watcher_.call(&Watcher::watch, counter).get();
    if (what == "relay") {
      std::string other;
      words >> other;
      return std::to_string(counter.call(&Counter::relay, handles_.at(other), number).get());
    }
    return "ok";
  }

 private:
  nestor::Cluster cluster_;
  nestor::Handle<Watcher> watcher_;
  std::map<std::string, nestor::Handle<Counter>> handles_;
};

}  // namespace

int main(int argc, char** argv) {
  nestor::ActorTypes types;
  types.add<Counter>();
  if (argc < 3 || std::string(argv[1]) != "client") return nestor::run(argc, argv, nullptr, types);
  Client client(argv[2]);
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    try {
      answer = client.answer(line);
    } catch (const std::exception& error) {
      answer = std::string("error: ") + error.what();
    }
    std::cout << answer + "\n" << std::flush;
  }
  return 0;
}
