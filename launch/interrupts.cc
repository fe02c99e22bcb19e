#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <nestor/launch/error.h>
#include <nestor/launch/interrupts.h>

namespace nestor::launch {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

/// Where the handler writes. A handler can reach nothing but what is static; and blocking the signals and waiting for
/// them would not do, since the BLAS has made threads that do not block them before main began.
std::atomic<int> handler_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int signal) {
  int error = errno;
  char byte = static_cast<char>(signal);
  if (int pipe = handler_pipe.load(); pipe >= 0) static_cast<void>(!::write(pipe, &byte, 1));
  errno = error;
}

}  // namespace

Interrupts::Interrupts() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw WorkError("signals", "no pipe can be made");
  read_end_ = ends[0], write_end_ = ends[1];
  int none = -1;
  if (!handler_pipe.compare_exchange_strong(none, write_end_)) {
    ::close(read_end_), ::close(write_end_);
    throw WorkError("signals", "another training of this process catches them", "train in one process each");
  }
  thread_ = std::thread([this] { wait(); });
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

Interrupts::~Interrupts() {
  for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  handler_pipe = -1;
  char end = 0;
  while (::write(write_end_, &end, 1) < 0 && errno == EINTR) {
  }
  thread_.join();
  ::close(read_end_);
  ::close(write_end_);
}

void Interrupts::on_first(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  first_ = std::move(action);
}

void Interrupts::on_second(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  second_ = std::move(action);
}

void Interrupts::wait() {
  while (true) {
    char signal = 0;
    auto got = ::read(read_end_, &signal, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || signal == 0) return;
    bool first = count_++ == 0;
    if (first) requested_ = signal;
    std::lock_guard lock(mutex_);
    auto& action = first ? first_ : second_;
    if (action) action();
  }
}

}  // namespace nestor::launch
