#include <torch/torch.h>

#include <nestor/actors/codec.h>
#include <nestor/actors/tensor_buffer.h>

namespace nestor::actors {

namespace {

constexpr std::size_t kTensorAlignment = 16;   ///< as malloc gives: no element is larger
constexpr std::size_t kUsedInPlace = 1 << 16;  ///< bytes; a small tensor must not keep a large message

}  // namespace

std::size_t Decoder::length(std::size_t least) {
  std::uint64_t length = 0;
  (*this)(length);
  if (length > bytes_.size() / least) malformed("a length is greater than the message");
  return static_cast<std::size_t>(length);
}

void Decoder::finish() const {
  if (!bytes_.empty()) malformed("bytes are left over");
}

void Decoder::malformed(const std::string& why) {
  throw Error("message", "cannot be read: " + why, "do both ends run the same program?");
}

void Codec<at::Tensor>::encode(Encoder& encoder, const at::Tensor& value) {
  encoder(value.defined());
  if (!value.defined()) return;
  const torch::Tensor tensor = value.detach().to(torch::kCPU).contiguous();
  const std::size_t size = tensor.nbytes();
  encoder(to_comm(tensor.scalar_type()), tensor.sizes().vec(), static_cast<std::uint64_t>(size));
  encoder.align(kTensorAlignment);
  encoder.raw(tensor.data_ptr(), size);
}

void Codec<at::Tensor>::decode(Decoder& decoder, at::Tensor& value) {
  bool defined = false;
  decoder(defined);
  value = torch::Tensor();
  if (!defined) return;
  comm::Descriptor descriptor;
  decoder(descriptor.dtype, descriptor.shape);
  const std::size_t size = decoder.length();
  decoder.align(kTensorAlignment);
  const torch::Dtype dtype = to_torch(descriptor.dtype);
  std::uint64_t expected = torch::elementSize(dtype);
  for (std::int64_t extent : descriptor.shape) {
    if (extent < 0 || (extent > 0 && expected > size / static_cast<std::uint64_t>(extent)))
      Decoder::malformed("a tensor's shape does not match its bytes");
    expected *= static_cast<std::uint64_t>(extent);
  }
  if (expected != size) Decoder::malformed("a tensor's shape does not match its bytes");
  const char* data = decoder.raw(size).data();
  if (size >= kUsedInPlace && decoder.owner() && reinterpret_cast<std::uintptr_t>(data) % kTensorAlignment == 0) {
    const auto owner = decoder.owner();
    value = torch::from_blob(
        const_cast<char*>(data), descriptor.shape, [owner](void*) {}, torch::TensorOptions().dtype(dtype));
    return;
  }
  value = torch::empty(descriptor.shape, torch::TensorOptions().dtype(dtype));
  if (size > 0) std::memcpy(value.data_ptr(), data, size);
}

}  // namespace nestor::actors
