#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

#include <nestor/actors/future.h>

namespace nestor::actors {

/// A thread that runs what it is given, in order. Between two pieces it sleeps; within a piece a lane waits only in
/// channel calls.
class LaneThread {
 public:
  LaneThread();
  /// Runs what is queued, then ends.
  ~LaneThread();
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  void post(std::function<void()> work);
  /// The same with a result, or with what it throws. Any thread.
  template <class F>
  auto submit(F work) -> Future<std::invoke_result_t<F&>> {
    using Result = std::invoke_result_t<F&>;
    auto promise = std::make_shared<Promise<Result>>();
    auto future = promise->future();
    post([promise, work = std::move(work)]() mutable {
      try {
        if constexpr (std::is_void_v<Result>) {
          work();
          promise->set_value();
        } else {
          promise->set_value(work());
        }
      } catch (...) {
        promise->fail(std::current_exception());
      }
    });
    return future;
  }

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable queued_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace nestor::actors
