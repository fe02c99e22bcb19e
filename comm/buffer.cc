#include <nestor/comm/buffer.h>

namespace nestor::comm {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::bfloat16:
    case DType::float16:
      return 2;
    case DType::uint8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

std::size_t Descriptor::bytes() const {
  std::size_t count = size_of(dtype);
  for (std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

std::size_t bytes(const Message& message) {
  std::size_t sum = 0;
  for (const Buffer& buffer : message) {
    if (!buffer.none()) sum += buffer.descriptor.bytes();
  }
  return sum;
}

}  // namespace nestor::comm
