#pragma once

#include <torch/torch.h>

#include <nestor/comm/buffer.h>
#include <nestor/modules/batch.h>

namespace nestor::actors {

/// Tensors as channels carry them, and back. Neither way copies a contiguous tensor: the buffer holds the tensor alive,
/// and the tensor made from a buffer holds the buffer's owner. Undefined tensors are "none" buffers.
/// Whoever sends a tensor gives up writing to it; whoever makes one from a message must not write to it either.
comm::Message to_message(const modules::Tensors& tensors);
modules::Tensors to_tensors(const comm::Message& message);

/// Throws Error for a type that channels do not carry.
comm::DType to_comm(torch::Dtype dtype);
torch::Dtype to_torch(comm::DType dtype);

}  // namespace nestor::actors
