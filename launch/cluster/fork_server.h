#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include <nestor/launch/cluster/agent.h>

namespace nestor::launch {

/// Starts processes that run this very program without loading its libraries again, which takes longer than all else at
/// their start: a copy of this process, set aside while it has no threads, forks them. They die with the copy, and the
/// copy with this process's main thread. Any thread.
class ForkServer {
 public:
  /// What a new process does; returns its exit code. What it throws is reported as by the program's main.
  using Body = std::function<int(const std::string& what, const std::string& input)>;
  /// Makes the copy. Call it in the main thread, before anything makes threads or opens what a copy must not hold open.
  explicit ForkServer(Body body);
  /// Ends the copy and what is left of its processes.
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  struct Request {
    std::string what, input;               ///< for the body
    std::filesystem::path log;             ///< where its output is appended; empty: this process's
    std::vector<std::string> environment;  ///< NAME=VALUE, over what is inherited
  };
  /// `ended` is called once, in a thread of the server, with what became of it. Destroying the child ends it: SIGTERM,
  /// then SIGKILL. Null where the copy is gone or cannot fork: start the program anew instead.
  std::unique_ptr<Agent::Child> start(const Request& request, std::function<void(std::string cause)> ended);

 private:
  class Child;
  struct Entry {
    std::function<void(std::string)> ended;
    std::int64_t pid = 0;  ///< 0: not answered yet, -1: could not be started
    bool over = false;
  };
  bool tell(const std::string& message);
  void listen();
  void over(std::uint64_t id, const std::string& cause);

  int socket_ = -1;
  pid_t copy_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool gone_ = false;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Entry> entries_;
  std::thread listener_;
};

}  // namespace nestor::launch
