#pragma once

#include <cstdint>

namespace nestor::test {

/// Counts the bytes of CPU tensors made while it lives. One at a time; tensors may outlive it.
class LiveBytes {
 public:
  LiveBytes();
  ~LiveBytes();
  LiveBytes(const LiveBytes&) = delete;
  LiveBytes& operator=(const LiveBytes&) = delete;

  std::int64_t now() const;
  std::int64_t peak() const;  ///< since the last reset_peak
  void reset_peak();

 private:
  struct Counter;
  struct CountingAllocator;
  CountingAllocator* allocator_;
};

}  // namespace nestor::test
