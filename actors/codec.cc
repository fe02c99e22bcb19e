#include <torch/torch.h>

#include <nestor/actors/codec.h>
#include <nestor/actors/tensor_buffer.h>
#include <nestor/comm/block_pool.h>

namespace nestor::actors {

namespace {

constexpr std::size_t kTensorAlignment = 16;   ///< as malloc gives: no element is larger
constexpr std::size_t kUsedInPlace = 1 << 16;  ///< bytes; a small tensor must not keep a large message

/// Nobody else can reach the tensor's memory, and it is LibTorch's own: not a user's that from_blob borrowed.
bool sole_owner(const torch::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return tensor.use_count() == 1 && storage.use_count() == 1 && storage.allocator() != nullptr &&
         storage.data_ptr().get_deleter() == storage.allocator()->raw_deleter();
}

comm::Buffer bytes_at(const void* data, std::size_t size, std::shared_ptr<const void> owner) {
  comm::Buffer buffer;
  buffer.descriptor.dtype = comm::DType::uint8;
  buffer.descriptor.shape = {static_cast<std::int64_t>(size)};
  buffer.data = data;
  buffer.owner = std::move(owner);
  return buffer;
}

torch::Tensor in_place(const void* data, torch::IntArrayRef shape, torch::Dtype dtype,
                       std::shared_ptr<const void> owner) {
  return torch::from_blob(
      const_cast<void*>(data), shape, [owner = std::move(owner)](void*) {}, torch::TensorOptions().dtype(dtype));
}

}  // namespace

std::shared_ptr<void> Encoder::memory(std::size_t bytes) const {
  return (memory_ ? memory_ : std::make_shared<comm::BlockPool>(0))->allocate(bytes);
}

std::size_t Decoder::length(std::size_t least) {
  std::uint64_t length = 0;
  (*this)(length);
  if (length > bytes_.size() / least) malformed("a length is greater than the message");
  return static_cast<std::size_t>(length);
}

void Decoder::finish() const {
  if (!bytes_.empty() || next_attached_ != attached_.size()) malformed("bytes are left over");
}

comm::Buffer Decoder::attached() {
  if (next_attached_ == attached_.size()) malformed("an attached tensor is missing");
  return std::move(attached_[next_attached_++]);
}

void Decoder::malformed(const std::string& why) {
  throw Error("message", "cannot be read: " + why, "do both ends run the same program?");
}

void Codec<at::Tensor>::encode(Encoder& encoder, const at::Tensor& value) {
  encoder(value.defined());
  if (!value.defined()) return;
  const bool ours = encoder.owned() && sole_owner(value);
  torch::Tensor tensor = value.detach().to(torch::kCPU).contiguous();
  const std::size_t size = tensor.nbytes();
  const bool attached = encoder.attaches(size);
  encoder(to_comm(tensor.scalar_type()), tensor.sizes().vec(), static_cast<std::uint64_t>(size), attached);
  if (attached) {
    const void* data = tensor.data_ptr();
    if (ours || !tensor.is_alias_of(value))
      return encoder.attach_buffer(bytes_at(data, size, std::make_shared<torch::Tensor>(std::move(tensor))));
    auto copy = encoder.memory(size);
    std::memcpy(copy.get(), data, size);
    return encoder.attach_buffer(bytes_at(copy.get(), size, copy));
  }
  encoder.align(kTensorAlignment);
  encoder.raw(tensor.data_ptr(), size);
}

void Codec<at::Tensor>::decode(Decoder& decoder, at::Tensor& value) {
  bool defined = false, attached = false;
  decoder(defined);
  value = torch::Tensor();
  if (!defined) return;
  comm::DType type{};
  std::vector<std::int64_t> shape;
  std::uint64_t size = 0;
  decoder(type, shape, size, attached);
  const comm::Buffer buffer = attached ? decoder.attached() : comm::Buffer();
  if (size > (attached ? buffer.none() ? 0 : buffer.descriptor.bytes() : decoder.left()))
    Decoder::malformed("a length is greater than the message");
  const torch::Dtype dtype = to_torch(type);
  std::uint64_t expected = torch::elementSize(dtype);
  for (std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && expected > size / static_cast<std::uint64_t>(extent)))
      Decoder::malformed("a tensor's shape does not match its bytes");
    expected *= static_cast<std::uint64_t>(extent);
  }
  if (expected != size || (attached && size != buffer.descriptor.bytes()))
    Decoder::malformed("a tensor's shape does not match its bytes");
  if (attached) {
    value = in_place(buffer.data, shape, dtype, buffer.owner);
    return;
  }
  decoder.align(kTensorAlignment);
  const char* data = decoder.raw(size).data();
  if (size >= kUsedInPlace && decoder.owner() && reinterpret_cast<std::uintptr_t>(data) % kTensorAlignment == 0) {
    value = in_place(data, shape, dtype, decoder.owner());
    return;
  }
  value = torch::empty(shape, torch::TensorOptions().dtype(dtype));
  if (size > 0) std::memcpy(value.data_ptr(), data, size);
}

}  // namespace nestor::actors
