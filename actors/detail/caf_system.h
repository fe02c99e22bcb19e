#pragma once

#include <memory>

#include <nestor/actors/detail/cell.h>

namespace nestor::actors::detail {

/// The one place that knows CAF: gives cells a CAF actor for each of their threads, which drains them. CAF's core
/// module only. CAF parses no arguments or files here and writes no log.
class CafSystem {
 public:
  CafSystem();
  /// Waits for the threads of all launched cells; they must have ended.
  ~CafSystem();
  CafSystem(const CafSystem&) = delete;
  CafSystem& operator=(const CafSystem&) = delete;

  /// Starts the cell's threads.
  void launch(const std::shared_ptr<Cell>& cell);
  /// Gives the system up, threads and memory: for actors that do not end. The destructor then does nothing.
  void leak();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor::actors::detail
