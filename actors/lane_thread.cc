#include <nestor/actors/lane_thread.h>

namespace nestor::actors {

LaneThread::LaneThread() : thread_([this] { loop(); }) {}

LaneThread::~LaneThread() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  queued_.notify_one();
  thread_.join();
}

void LaneThread::post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  queued_.notify_one();
}

void LaneThread::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // frees what it holds in this thread, without the lock
    lock.lock();
  }
}

}  // namespace nestor::actors
