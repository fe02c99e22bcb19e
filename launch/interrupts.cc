#include <cerrno>
#include <utility>

#include <pthread.h>

#include <nestor/launch/interrupts.h>

namespace nestor::launch {

Interrupts::Interrupts() {
  sigemptyset(&signals_);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { wait(); });
}

Interrupts::~Interrupts() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // to that thread alone: it is blocked everywhere else
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
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
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0) continue;
    if (ending_) return;
    bool first = count_++ == 0;
    if (first) requested_ = signal;
    std::lock_guard lock(mutex_);
    auto& action = first ? first_ : second_;
    if (action) action();
  }
}

}  // namespace nestor::launch
