#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace nestor::launch {

/// A program that this process starts, watches and ends. It dies with the process that started it (PDEATHSIG), so that
/// none is left over; it is reaped at once. Any thread.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::string> arguments;    ///< the first is the program: a file, or a name that PATH has
    std::vector<std::string> environment;  ///< NAME=VALUE, over what is inherited
    std::string input;  ///< what it reads on standard input, at most 64 KiB: secrets travel here, not in arguments
    std::filesystem::path log;  ///< where its output is appended; empty: this process's
    bool dies_with_parent = true;
    std::chrono::milliseconds end_limit{3000};  ///< between SIGTERM and SIGKILL in the destructor
  };
  /// `ended` is called once, in a thread of its own, with what became of it: "exit code 3", "signal 9 (Killed)".
  /// Throws WorkError where it cannot be started, naming the file.
  ChildProcess(Options options, std::function<void(const std::string& cause)> ended);
  /// Ends it: SIGTERM, then SIGKILL, to its whole process group. Waits for its end, and for `ended`.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// To the process alone; nothing once it has ended.
  void signal(int number);
  /// It outlives this object and this process; `ended` is not called any more.
  void detach();
  /// Waits for the end; its exit code, or 128 + signal.
  int wait();

 private:
  class Shared;
  const std::chrono::milliseconds end_limit_;
  std::shared_ptr<Shared> shared_;
  pid_t pid_ = -1;
  std::thread watcher_;
};

/// "exit code 3" or "signal 9 (Killed)" of a wait status.
std::string end_in_words(int status);

}  // namespace nestor::launch
