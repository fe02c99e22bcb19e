#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/actors/detail/cell.h>

namespace nestor::actors {

/// An actor as lists show it.
struct ActorInfo {
  std::string name;
  std::string type;
  std::string state;        ///< PENDING (its constructor runs), ALIVE or DEAD
  std::size_t queued = 0;   ///< calls in its mailbox
  std::string death_cause;  ///< empty while it lives
};

class Runtime;

namespace remote {
class Node;
}

namespace detail {

/// The actors of one runtime by name. Any thread.
class Registry {
 public:
  explicit Registry(Runtime& runtime) : runtime_(&runtime) {}

  /// Throws Error for a malformed or taken name, or once closed.
  void add(const std::shared_ptr<Cell>& cell);
  /// Throws Error that lists those that exist, and why one of that name died.
  std::shared_ptr<Cell> find(std::string_view name) const;
  /// The living ones by name, then the last ones that died.
  std::vector<ActorInfo> list() const;

  /// Called by cells: its name is free again; its object is gone.
  void died(const Cell& cell, const std::string& cause);
  void ended(const Cell& cell);

  /// Refuses new actors. Returns those whose object still exists.
  std::vector<std::shared_ptr<Cell>> close();
  /// Waits until no object exists; returns the names of those that remain at the deadline.
  std::vector<std::string> wait_ended(std::chrono::steady_clock::time_point deadline);

  Runtime& runtime() const { return *runtime_; }
  /// The process's place in a cluster (Runtime::node).
  remote::Node* node() const { return node_.load(std::memory_order_acquire); }
  void set_node(remote::Node* node) { node_.store(node, std::memory_order_release); }
  /// Guards who waits for whom (Cell::begin_wait).
  std::mutex& wait_graph() { return wait_graph_; }

 private:
  static constexpr std::size_t kObituaries = 64;

  Runtime* const runtime_;
  std::atomic<remote::Node*> node_{nullptr};
  mutable std::mutex mutex_;
  std::condition_variable all_ended_;
  std::map<std::string, std::shared_ptr<Cell>, std::less<>> living_;
  std::map<const Cell*, std::shared_ptr<Cell>> objects_;  ///< cells that have a thread
  std::deque<ActorInfo> dead_;
  bool closed_ = false;
  std::mutex wait_graph_;
};

}  // namespace detail
}  // namespace nestor::actors
