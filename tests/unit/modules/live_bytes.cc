#include "live_bytes.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include <c10/core/Allocator.h>
#include <torch/torch.h>
#include <torch/version.h>

// Allocator::allocate lost its const in LibTorch 2.3, and copy_data came in 2.2.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
#define NESTOR_ALLOCATE_CONST
#else
#define NESTOR_ALLOCATE_CONST const
#endif

namespace nestor::test {

struct LiveBytes::Counter {
  std::atomic<std::int64_t> now{0}, peak{0};
  void add(std::int64_t bytes) {
    const std::int64_t value = now += bytes;
    std::int64_t seen = peak.load();
    while (value > seen && !peak.compare_exchange_weak(seen, value)) {
    }
  }
};

struct LiveBytes::CountingAllocator final : c10::Allocator {
  struct Block {
    c10::DataPtr inner;
    std::shared_ptr<Counter> counter;
    std::int64_t bytes;
    static void release(void* block) {
      auto* self = static_cast<Block*>(block);
      self->counter->add(-self->bytes);
      delete self;
    }
  };

  c10::DataPtr allocate(std::size_t bytes) NESTOR_ALLOCATE_CONST override {
    c10::DataPtr inner = wrapped->allocate(bytes);
    void* data = inner.get();
    const c10::Device device = inner.device();
    counter->add(static_cast<std::int64_t>(bytes));
    return {data, new Block{std::move(inner), counter, static_cast<std::int64_t>(bytes)}, &Block::release, device};
  }
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 2)
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
#endif

  c10::Allocator* wrapped = c10::GetAllocator(c10::kCPU);
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
};

LiveBytes::LiveBytes() : allocator_(new CountingAllocator) {
  c10::SetAllocator(c10::kCPU, allocator_, 1);
}

LiveBytes::~LiveBytes() {
  c10::SetAllocator(c10::kCPU, allocator_->wrapped, 1);
  delete allocator_;  // blocks hold the counter, not the allocator
}

std::int64_t LiveBytes::now() const {
  return allocator_->counter->now;
}
std::int64_t LiveBytes::peak() const {
  return allocator_->counter->peak;
}
void LiveBytes::reset_peak() {
  allocator_->counter->peak = allocator_->counter->now.load();
}

}  // namespace nestor::test
