#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <nestor/comm/shape.h>

namespace nestor::comm {

enum class DType : std::uint8_t { float32, float64, bfloat16, float16, int64, int32, uint8, boolean };
constexpr std::size_t size_of(DType dtype) {
  constexpr std::uint8_t sizes[] = {4, 8, 2, 2, 8, 4, 1, 1};
  const auto index = static_cast<std::size_t>(dtype);
  return index < sizeof(sizes) ? sizes[index] : 0;
}

enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int16_t index = 0;
  friend bool operator==(Device, Device) = default;
};

/// What a buffer's bytes are. Row-major and contiguous.
struct Descriptor {
  DType dtype = DType::float32;
  Device device;
  Shape shape;
  std::size_t bytes() const {
    std::size_t count = size_of(dtype);
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

/// A point on a device's stream. On CPUs every point has passed, and an event is empty.
/// `wait` blocks the calling thread until it has passed; `enqueue` makes the given stream (a cudaStream_t) wait.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool passed() const = 0;
  virtual void wait() const = 0;
  virtual void enqueue(void* stream) const = 0;
};

/// Memory that may be read by whoever holds it: a tensor without LibTorch. Copying a Buffer copies a handle.
/// Read-only from the moment it is sent. A default Buffer is the explicit "none" marker (taken as zeros).
struct Buffer {
  Descriptor descriptor;
  const void* data = nullptr;
  std::shared_ptr<const void> owner;      ///< keeps `data` alive; the last one out frees it
  std::shared_ptr<const Event> readable;  ///< when the bytes may be read; empty: now
  std::shared_ptr<const Event>
      reusable;  ///< when a sent buffer's memory may be written again; empty: once owner is unique

  bool none() const { return owner == nullptr; }
};

/// What one key carries: the tensors of one edge for one microbatch, in the edge's order.
using Message = std::vector<Buffer>;
inline std::size_t bytes(const Message& message) {
  std::size_t sum = 0;
  for (const Buffer& buffer : message) {
    if (!buffer.none()) sum += buffer.descriptor.bytes();
  }
  return sum;
}

}  // namespace nestor::comm
