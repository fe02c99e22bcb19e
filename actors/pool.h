#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nestor/actors/runtime.h>

namespace nestor::actors {

/// Like actors that share work: members NAME/0, NAME/1, ... of one type. Owns them: they are killed with the pool.
/// The runtime must outlive it. One thread at a time.
template <std::derived_from<Actor> T>
class ActorPool {
 public:
  /// Spawns `size` members, each T(args...) of copies. Where one cannot be spawned, none remains.
  template <class... Args>
  ActorPool(Runtime& runtime, const std::string& name, std::size_t size, const Args&... args) : name_(name) {
    if (size == 0) throw Error(name, "a pool has at least one member");
    try {
      for (std::size_t i = 0; i < size; ++i) {
        members_.push_back(runtime.spawn<T>(name + "/" + std::to_string(i), args...));
      }
    } catch (...) {
      kill("its pool could not be made");
      throw;
    }
  }
  /// Of actors that live already, here or in other processes.
  ActorPool(std::string name, std::vector<Handle<T>> members) : name_(std::move(name)), members_(std::move(members)) {
    if (members_.empty()) throw Error(name_, "a pool has at least one member");
  }
  ActorPool(const ActorPool&) = delete;
  ActorPool& operator=(const ActorPool&) = delete;
  ~ActorPool() { kill("its pool was destroyed"); }

  std::size_t size() const { return members_.size(); }
  const std::string& name() const { return name_; }
  const Handle<T>& member(std::size_t i) const { return members_.at(i); }

  /// method(input) for each input, results in the inputs' order. A member gets its next input when it has finished
  /// its last, so that slow inputs hold up nobody else. Throws the first failure; calls under way are then abandoned.
  template <class Method, class Input>
  auto map(Method method, std::vector<Input> inputs) {
    using R = ResultOfCall<Method, Input>;
    std::vector<std::optional<R>> slots(inputs.size());
    map_unordered(method, std::move(inputs), [&](std::size_t i, R result) { slots[i].emplace(std::move(result)); });
    std::vector<R> results;
    results.reserve(slots.size());
    for (auto& slot : slots) results.push_back(std::move(*slot));
    return results;
  }
  /// The same as results come: `on_result(index of the input, result)`, in the calling thread.
  template <class Method, class Input, class OnResult>
  void map_unordered(Method method, std::vector<Input> inputs, OnResult on_result) {
    using R = ResultOfCall<Method, Input>;
    const std::size_t lanes = std::min(members_.size(), inputs.size());
    std::vector<Future<R>> futures(lanes);
    std::vector<std::size_t> input_of(lanes);
    std::size_t next = 0, done = 0;
    const auto give = [&](std::size_t lane) {
      input_of[lane] = next;
      futures[lane] = members_[lane].call(method, std::move(inputs[next]));
      ++next;
    };
    for (std::size_t lane = 0; lane < lanes; ++lane) give(lane);
    for (; done < inputs.size(); ++done) {
      const std::size_t lane = *wait_any(futures);
      const std::size_t input = input_of[lane];
      R result = futures[lane].get();
      if (next < inputs.size()) give(lane);  // before the callback: the member need not wait for it
      on_result(input, std::move(result));
    }
  }
  /// One call, of the member with the fewest calls queued.
  template <class Method, class... Args>
  auto call(Method method, Args&&... args) {
    const auto fewest = std::min_element(members_.begin(), members_.end(),
                                         [](const auto& a, const auto& b) { return load(a) < load(b); });
    return fewest->call(method, std::forward<Args>(args)...);
  }
  /// Ends all members; queued calls fail with the cause.
  void kill(const std::string& cause) {
    for (const Handle<T>& member : members_) member.kill(cause);
  }

 private:
  template <class Method, class Input>
  using ResultOfCall = decltype(std::declval<Handle<T>>().call(std::declval<Method>(), std::declval<Input>()).get());

  static std::size_t load(const Handle<T>& member) { return member.cell().load(); }

  std::string name_;
  std::vector<Handle<T>> members_;
};

}  // namespace nestor::actors

namespace nestor {
using actors::ActorPool;
}
