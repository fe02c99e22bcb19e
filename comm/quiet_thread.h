#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace nestor::comm {

/// A thread that takes no signals: they are for the program's own threads.
template <class Work>
std::thread quiet_thread(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(work));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace nestor::comm
