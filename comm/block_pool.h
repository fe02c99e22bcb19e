#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace nestor::comm {

/// Memory that messages are received into, or copied to before they are sent. Freed blocks are kept for the next
/// message of their size, the most recently used first, so that pages are not faulted in anew and stay in the cache; at
/// most `keep` bytes of them. Blocks may outlive the pool's owner and be freed on any thread.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  explicit BlockPool(std::size_t keep) : keep_(keep) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// At least `bytes` bytes of uninitialised memory, aligned to 64 bytes from kSmall on and to 16 below. Throws
  /// std::bad_alloc. Call on a pool that a shared_ptr owns.
  std::shared_ptr<void> allocate(std::size_t bytes);

  /// Gives back to the system what is kept.
  void trim();

  static constexpr std::size_t kSmall = 4096;  ///< below it the allocator's own caches do as well
  std::size_t kept() const;                    ///< bytes in the free list

 private:
  void release(void* block, std::size_t size) noexcept;

  const std::size_t keep_;
  mutable std::mutex mutex_;
  std::size_t kept_ = 0;
  std::unordered_map<std::size_t, std::vector<void*>> free_;  ///< by size
};

}  // namespace nestor::comm
