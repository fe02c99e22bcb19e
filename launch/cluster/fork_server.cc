#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nestor/actors/codec.h>
#include <nestor/actors/error.h>
#include <nestor/comm/quiet_thread.h>
#include <nestor/launch/cluster/child_process.h>
#include <nestor/launch/cluster/fork_server.h>
#include <nestor/launch/error.h>
#include <nestor/launch/exit.h>

namespace nestor::launch {
namespace {

constexpr std::size_t kLongest = 128 << 10;  ///< of a message between the process and its copy
constexpr std::chrono::seconds kEndLimit{3};

/// To the copy: start a process, or send one a signal.
struct ToCopy {
  std::uint64_t id = 0;
  std::int32_t signal = 0;  ///< 0: start
  std::string what, input, log;
  std::vector<std::string> environment;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(id, signal, what, input, log, environment);
  }
};
struct FromCopy {
  std::uint64_t id = 0;
  bool ended = false;
  std::int64_t number = 0;  ///< pid, or wait status
  template <class Visit>
  void fields(Visit&& visit) {
    visit(id, ended, number);
  }
};

/// Not inlined: GCC 12 mistakes the short result's move for one beyond its bounds.
template <class Message>
[[gnu::noinline]] std::string bytes_of(const Message& message) {
  actors::Encoder encoder;
  encoder(message);
  return encoder.take();
}

/// Nothing at the end of the connection.
template <class Message>
std::optional<Message> receive(int socket) {
  std::string bytes(kLongest, '\0');
  ssize_t size = 0;
  do {
    size = ::recv(socket, bytes.data(), bytes.size(), 0);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  Message message;
  try {
    actors::Decoder(std::string_view(bytes.data(), static_cast<std::size_t>(size)))(message).finish();
  } catch (const actors::Error&) {
    return std::nullopt;
  }
  return message;
}

/// The copy: one thread, which forks and reaps.
class Copy {
 public:
  Copy(int socket, ForkServer::Body body) : socket_(socket), body_(std::move(body)) {}

  [[noreturn]] void serve() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    ends_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    for (;;) {
      pollfd waiting[2] = {{socket_, POLLIN, 0}, {ends_, POLLIN, 0}};
      if (::poll(waiting, 2, -1) < 0) continue;
      if (waiting[1].revents != 0) reap();
      if (waiting[0].revents == 0) continue;
      const auto message = receive<ToCopy>(socket_);
      if (!message) break;
      if (message->signal == 0) {
        start(*message);
      } else {
        for (const auto& [pid, id] : children_)
          if (id == message->id) {
            ::kill(pid, message->signal);
            if (message->signal == SIGKILL) ::kill(-pid, SIGKILL);  // with what it started itself
          }
      }
    }
    for (const auto& [pid, id] : children_) ::kill(-pid, SIGKILL);
    std::_Exit(0);
  }

 private:
  void start(const ToCopy& message) {
    const pid_t copy = ::getpid(), pid = ::fork();
    if (pid == 0) std::_Exit(run(message, copy));
    if (pid > 0) children_[pid] = message.id;
    answer({message.id, false, pid});
  }

  int run(const ToCopy& message, pid_t copy) {
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != copy) return 125;
    ::prctl(PR_SET_NAME, message.what.c_str());
    ::close(socket_);
    ::close(ends_);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC); nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    if (!message.log.empty()) {
      const int log = ::open(message.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      if (log < 0) return 126;
      ::dup2(log, STDOUT_FILENO);
      ::dup2(log, STDERR_FILENO);
      ::close(log);
    }
    for (const std::string& entry : message.environment) {
      const auto equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
    }
    int code = 1;
    try {
      code = body_(message.what, message.input);
    } catch (...) {
      const auto [known, line] = exit_of(std::current_exception());
      std::fprintf(stderr, "nestor: %s\n", line.c_str());
      code = known;
    }
    std::fflush(nullptr);
    return code;
  }

  void reap() {
    signalfd_siginfo info;
    while (::read(ends_, &info, sizeof info) > 0) {
    }
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found = children_.find(pid);
      if (found == children_.end()) continue;
      answer({found->second, true, status});
      children_.erase(found);
    }
  }

  void answer(const FromCopy& message) {
    const std::string bytes = bytes_of(message);
    static_cast<void>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }

  const int socket_;
  const ForkServer::Body body_;
  int ends_ = -1;
  std::map<pid_t, std::uint64_t> children_;
};

}  // namespace

class ForkServer::Child final : public Agent::Child {
 public:
  Child(ForkServer& server, std::uint64_t id, std::int64_t pid) : server_(server), id_(id), pid_(pid) {}
  ~Child() override {
    signal(SIGTERM);
    if (!ended(kEndLimit)) {
      signal(SIGKILL);
      ended(kEndLimit);
    }
    std::lock_guard lock(server_.mutex_);
    server_.entries_.erase(id_);
  }
  std::int64_t pid() const override { return pid_; }
  void signal(int number) override {
    {
      std::lock_guard lock(server_.mutex_);
      if (server_.entries_.at(id_).over) return;
    }
    ToCopy message;
    message.id = id_;
    message.signal = number;
    server_.tell(bytes_of(message));
  }

 private:
  bool ended(std::chrono::seconds limit) {
    std::unique_lock lock(server_.mutex_);
    return server_.changed_.wait_for(lock, limit, [this] { return server_.entries_.at(id_).over; });
  }

  ForkServer& server_;
  const std::uint64_t id_;
  const std::int64_t pid_;
};

ForkServer::ForkServer(Body body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    gone_ = true;
    return;
  }
  const pid_t parent = ::getpid();
  std::fflush(nullptr);
  copy_ = ::fork();
  if (copy_ == 0) {
    ::close(ends[0]);
    ::setsid();  // Ctrl-C is for the process itself
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(125);
    ::prctl(PR_SET_NAME, "fork server");
    Copy(ends[1], std::move(body)).serve();
  }
  ::close(ends[1]);
  socket_ = ends[0];
  gone_ = copy_ < 0;
}

ForkServer::~ForkServer() {
  if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
  if (listener_.joinable()) listener_.join();
  if (copy_ > 0) ::waitpid(copy_, nullptr, 0);
  if (socket_ >= 0) ::close(socket_);
}

bool ForkServer::tell(const std::string& message) {
  return message.size() <= kLongest &&
         ::send(socket_, message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

std::unique_ptr<Agent::Child> ForkServer::start(const Request& request, std::function<void(std::string)> ended) {
  ToCopy message{0, 0, request.what, request.input, request.log.string(), request.environment};
  std::unique_lock lock(mutex_);
  if (gone_) return nullptr;
  if (!listener_.joinable()) listener_ = comm::quiet_thread([this] { listen(); });
  message.id = ++next_;
  entries_[message.id].ended = std::move(ended);
  lock.unlock();
  const bool told = tell(bytes_of(message));
  lock.lock();
  const auto entry = entries_.find(message.id);
  if (told) changed_.wait(lock, [&] { return entry->second.pid != 0; });
  if (entry->second.pid <= 0) {
    entries_.erase(entry);
    return nullptr;
  }
  return std::make_unique<Child>(*this, message.id, entry->second.pid);
}

void ForkServer::listen() {
  while (const auto message = receive<FromCopy>(socket_)) {
    if (message->ended) {
      over(message->id, end_in_words(static_cast<int>(message->number)));
      continue;
    }
    std::lock_guard lock(mutex_);
    if (const auto entry = entries_.find(message->id); entry != entries_.end()) entry->second.pid = message->number;
    changed_.notify_all();
  }
  std::vector<std::uint64_t> left;
  {
    std::lock_guard lock(mutex_);
    gone_ = true;
    for (auto& [id, entry] : entries_) {
      if (entry.pid == 0) entry.pid = -1;
      if (entry.pid > 0 && !entry.over) left.push_back(id);
    }
    changed_.notify_all();
  }
  for (std::uint64_t id : left) over(id, "the process that forked it is gone");
}

void ForkServer::over(std::uint64_t id, const std::string& cause) {
  std::function<void(std::string)> ended;
  {
    std::lock_guard lock(mutex_);
    const auto entry = entries_.find(id);
    if (entry == entries_.end() || entry->second.over) return;
    ended = std::move(entry->second.ended);
  }
  if (ended) ended(cause);  // before its destructor may return
  std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find(id); entry != entries_.end()) entry->second.over = true;
  changed_.notify_all();
}

}  // namespace nestor::launch
