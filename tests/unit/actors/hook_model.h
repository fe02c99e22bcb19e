#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <nestor/actors/job.h>

namespace nestor::test {

/// A place in a step where a test may step in.
struct HookPoint {
  std::string module;  ///< "llm.layers.2", "text", "vision", "image"; "make": a module is being made
  std::int64_t step = 0;
  std::int32_t microbatch = 0;
  bool backward = false;
};
/// Called in the lane's thread; may throw, wait, or return what the output (or the gradient) is multiplied with.
using Hook = std::function<double(const HookPoint&)>;

/// What a test changes between steps; its lanes see it at the next operator.
class Hooks {
 public:
  void set(Hook hook) {
    std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  double at(const HookPoint& point) const {
    Hook hook;
    {
      std::lock_guard lock(mutex_);
      hook = hook_;
    }
    return hook ? hook(point) : 1.0;
  }

 private:
  mutable std::mutex mutex_;
  Hook hook_;
};

/// An encoder ("vision"), four layers, a head and a generator ("image"), small and in float64, with hooks in all of
/// them. Two stages, three microbatches of two samples.
actors::JobSpec hook_job(std::shared_ptr<Hooks> hooks);

/// Once it is open, everybody passes.
class Gate {
 public:
  void open() {
    {
      std::lock_guard lock(mutex_);
      open_ = true;
    }
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

bool equal(const std::map<std::string, torch::Tensor>& a, const std::map<std::string, torch::Tensor>& b);
double largest(const std::map<std::string, torch::Tensor>& tensors);

}  // namespace nestor::test
