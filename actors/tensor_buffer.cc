#include <memory>
#include <string>

#include <nestor/actors/error.h>
#include <nestor/actors/tensor_buffer.h>

namespace nestor::actors {
namespace {

comm::Buffer to_buffer(const torch::Tensor& tensor) {
  if (!tensor.defined()) return {};
  auto owner = std::make_shared<torch::Tensor>(tensor.detach().contiguous());
  comm::Buffer buffer;
  buffer.descriptor.dtype = to_comm(owner->scalar_type());
  if (owner->is_cuda()) {
    buffer.descriptor.device = {comm::DeviceKind::cuda, static_cast<std::int16_t>(owner->get_device())};
  }
  const auto sizes = owner->sizes();
  buffer.descriptor.shape.assign(sizes.begin(), sizes.end());
  buffer.data = owner->data_ptr();
  buffer.owner = std::move(owner);
  return buffer;
}

torch::Tensor to_tensor(const comm::Buffer& buffer) {
  if (buffer.none()) return {};
  if (buffer.readable) buffer.readable->wait();
  auto options = torch::TensorOptions().dtype(to_torch(buffer.descriptor.dtype));
  options = buffer.descriptor.device.kind == comm::DeviceKind::cuda
                ? options.device(torch::kCUDA, static_cast<torch::DeviceIndex>(buffer.descriptor.device.index))
                : options.device(torch::kCPU);
  const torch::IntArrayRef sizes(buffer.descriptor.shape.data(), buffer.descriptor.shape.size());
  return torch::from_blob(
      const_cast<void*>(buffer.data), sizes, [owner = buffer.owner](void*) {}, options);
}

}  // namespace

comm::DType to_comm(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat32:
      return comm::DType::float32;
    case torch::kFloat64:
      return comm::DType::float64;
    case torch::kBFloat16:
      return comm::DType::bfloat16;
    case torch::kFloat16:
      return comm::DType::float16;
    case torch::kInt64:
      return comm::DType::int64;
    case torch::kInt32:
      return comm::DType::int32;
    case torch::kUInt8:
      return comm::DType::uint8;
    case torch::kBool:
      return comm::DType::boolean;
    default:
      throw Error("channel", "cannot carry tensors of type " + std::string(c10::toString(dtype)),
                  "convert outputs to a floating, int64, int32, uint8 or bool type");
  }
}

torch::Dtype to_torch(comm::DType dtype) {
  switch (dtype) {
    case comm::DType::float32:
      return torch::kFloat32;
    case comm::DType::float64:
      return torch::kFloat64;
    case comm::DType::bfloat16:
      return torch::kBFloat16;
    case comm::DType::float16:
      return torch::kFloat16;
    case comm::DType::int64:
      return torch::kInt64;
    case comm::DType::int32:
      return torch::kInt32;
    case comm::DType::uint8:
      return torch::kUInt8;
    case comm::DType::boolean:
      return torch::kBool;
  }
  throw Error("channel", "a buffer of an unknown type arrived");
}

comm::Message to_message(const modules::Tensors& tensors) {
  comm::Message message;
  message.reserve(tensors.size());
  for (const auto& tensor : tensors) message.push_back(to_buffer(tensor));
  return message;
}

modules::Tensors to_tensors(const comm::Message& message) {
  modules::Tensors tensors;
  tensors.reserve(message.size());
  for (const auto& buffer : message) tensors.push_back(to_tensor(buffer));
  return tensors;
}

}  // namespace nestor::actors
