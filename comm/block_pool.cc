#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include <nestor/comm/block_pool.h>

namespace nestor::comm {

namespace {

struct alignas(16) Cell {
  std::byte bytes[16];
};

/// Eight sizes to each power of two: at most an eighth is wasted, and shapes that differ a little share blocks.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes) / 8, 64);
  return (bytes + step - 1) / step * step;
}

/// Large blocks start on a page, larger ones on a huge page, which they use where the system lets: the kernel copies
/// between processes page by page.
void* new_block(std::size_t size) {
  constexpr std::size_t kPage = 4096, kHuge = std::size_t{2} << 20;
  const std::size_t alignment = size >= kHuge ? kHuge : size >= 16 * kPage ? kPage : 64;
  void* block = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  if (size >= kHuge) madvise(block, size / kHuge * kHuge, MADV_HUGEPAGE);
  return block;
}

}  // namespace

BlockPool::~BlockPool() {
  trim();
}

void BlockPool::trim() {
  std::unordered_map<std::size_t, std::vector<void*>> freed;
  {
    std::lock_guard lock(mutex_);
    freed.swap(free_);
    kept_ = 0;
  }
  for (auto& [size, blocks] : freed) {
    for (void* block : blocks) std::free(block);
  }
}

std::shared_ptr<void> BlockPool::allocate(std::size_t bytes) {
  if (bytes < kSmall) {  // one allocation, control block included
    return std::make_shared_for_overwrite<Cell[]>((bytes + sizeof(Cell) - 1) / sizeof(Cell));
  }
  const std::size_t size = rounded(bytes);
  void* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (const auto list = free_.find(size); list != free_.end() && !list->second.empty()) {
      block = list->second.back();
      list->second.pop_back();
      kept_ -= size;
    }
  }
  if (block == nullptr) block = new_block(size);
  return {block, [pool = shared_from_this(), size](void* memory) { pool->release(memory, size); }};
}

void BlockPool::release(void* block, std::size_t size) noexcept {
  std::vector<void*> victims;
  try {
    std::lock_guard lock(mutex_);
    if (size <= keep_) {
      // Sizes come and go: what was used before makes room.
      for (auto list = free_.begin(); list != free_.end() && kept_ + size > keep_;) {
        if (list->first == size || list->second.empty()) {
          ++list;
          continue;
        }
        victims.push_back(list->second.back());
        list->second.pop_back();
        kept_ -= list->first;
      }
      if (kept_ + size <= keep_) {
        free_[size].push_back(block);
        kept_ += size;
        block = nullptr;
      }
    }
  } catch (const std::bad_alloc&) {
  }
  for (void* victim : victims) std::free(victim);
  std::free(block);
}

std::size_t BlockPool::kept() const {
  std::lock_guard lock(mutex_);
  return kept_;
}

}  // namespace nestor::comm
