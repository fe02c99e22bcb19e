#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nestor/launch/cluster/child_process.h>
#include <nestor/launch/cluster/starters.h>
#include <nestor/launch/error.h>

extern char** environ;  // NOLINT

namespace nestor::launch {

std::string end_in_words(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

/// Whether it has been reaped: a signal sent later could reach another process of that number.
class ChildProcess::Shared {
 public:
  void signal(pid_t pid, int number, bool group) {
    std::lock_guard lock(mutex_);
    if (!reaped_) ::kill(group ? -pid : pid, number);
  }
  /// Waits without reaping, then reaps under the lock.
  int reap(pid_t pid) {
    siginfo_t info;
    while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    }
    std::lock_guard lock(mutex_);
    ::kill(-pid, SIGKILL);  // whatever of its group has outlived it
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    status_ = status;
    ended_.notify_all();
    return status;
  }
  bool wait_for(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, limit, [this] { return reaped_; });
  }
  int wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return reaped_; });
    return status_;
  }
  /// Has the program begun? Where not, the constructor throws, and nobody is told of an end.
  void decide(bool begun) {
    std::lock_guard lock(mutex_);
    begun_ = begun ? 1 : 0;
    ended_.notify_all();
  }
  template <class Tell>
  void tell(Tell tell) {
    {
      std::unique_lock lock(mutex_);
      ended_.wait(lock, [this] { return begun_ >= 0; });
      if (begun_ == 0) return;
    }
    tell();
  }
  void forget() { decide(false); }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool reaped_ = false;
  int status_ = 0, begun_ = -1;
};

namespace {

constexpr std::size_t kMostInput = 60'000;

/// Everything that the child needs between fork and exec, where it may allocate nothing.
struct Launch {
  std::vector<std::string> arguments, environment;
  std::vector<char*> argv, envp;

  explicit Launch(const ChildProcess::Options& options) : arguments(options.arguments) {
    std::map<std::string, std::string> variables;
    const auto add = [&](const std::string& text) { variables[text.substr(0, text.find('='))] = text; };
    for (char** entry = environ; *entry != nullptr; ++entry) add(*entry);
    for (const std::string& entry : options.environment) add(entry);
    for (auto& [name, text] : variables) environment.push_back(text);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    for (std::string& variable : environment) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }
};

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw WorkError("process", std::string("no pipe can be made: ") + std::strerror(errno));
    read = ends[0], write = ends[1];
  }
  ~Pipe() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
  }
};

}  // namespace

ChildProcess::ChildProcess(Options options, std::function<void(const std::string&)> ended)
    : end_limit_(options.end_limit), shared_(std::make_shared<Shared>()) {
  Launch launch(options);
  const std::string program = find_program(options.arguments.front());
  if (program.empty()) throw WorkError(options.arguments.front(), "cannot be started: no folder of PATH has it");
  if (options.input.size() > kMostInput)  // what a pipe takes without waiting for its reader
    throw WorkError(options.arguments.front(), "cannot be started: its input is longer than 60,000 bytes");
  int log = -1;
  if (!options.log.empty()) {
    log = ::open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) throw WorkError(options.log.string(), std::string("cannot be written: ") + std::strerror(errno));
  }
  Pipe input, failure;
  const pid_t parent = ::getpid();

  // PDEATHSIG fires when the *thread* that forked ends: the watcher's thread forks, and lives as long as the child.
  std::mutex mutex;
  std::condition_variable forked;
  pid_t pid = -2;
  watcher_ = std::thread([&, shared = shared_, dies = options.dies_with_parent, ended = std::move(ended)] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      if (dies) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(125);  // it died before the line above
      }
      sigset_t none;
      sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::signal(SIGPIPE, SIG_DFL);  // what is ignored here would be there, too
      ::dup2(input.read, STDIN_FILENO);
      if (log >= 0) {
        ::dup2(log, STDOUT_FILENO);
        ::dup2(log, STDERR_FILENO);
      }
      ::execvpe(launch.argv[0], launch.argv.data(), launch.envp.data());
      const int error = errno;
      static_cast<void>(!::write(failure.write, &error, sizeof error));
      ::_exit(127);
    }
    {
      std::lock_guard lock(mutex);
      pid = child;
      forked.notify_one();
    }
    if (child < 0) return;
    const int status = shared->reap(child);
    shared->tell([&] { ended(end_in_words(status)); });
  });
  {
    std::unique_lock lock(mutex);
    forked.wait(lock, [&] { return pid != -2; });
  }
  if (log >= 0) ::close(log);
  if (pid < 0) {
    watcher_.join();
    throw WorkError(options.arguments.front(), "cannot be started: no process can be made");
  }
  pid_ = pid;
  // The reading end stays open here until all is written, which a pipe takes without waiting: no SIGPIPE, no block.
  const ssize_t wrote = ::write(input.write, options.input.data(), options.input.size());
  ::close(std::exchange(failure.write, -1));
  int error = 0;
  const bool failed = ::read(failure.read, &error, sizeof error) == sizeof error;
  shared_->decide(!failed && wrote == static_cast<ssize_t>(options.input.size()));
  if (failed || wrote != static_cast<ssize_t>(options.input.size())) {
    if (!failed) shared_->signal(pid_, SIGKILL, true);
    watcher_.join();
    throw WorkError(options.arguments.front(),
                    failed ? std::string("cannot be started: ") + std::strerror(error) : "does not take its input");
  }
}

ChildProcess::~ChildProcess() {
  if (!watcher_.joinable()) return;
  shared_->signal(pid_, SIGTERM, false);
  if (!shared_->wait_for(end_limit_)) shared_->signal(pid_, SIGKILL, true);
  watcher_.join();
}

void ChildProcess::detach() {
  shared_->forget();
  watcher_.detach();
}

void ChildProcess::signal(int number) {
  shared_->signal(pid_, number, false);
}

int ChildProcess::wait() {
  const int status = shared_->wait();
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace nestor::launch
