#pragma once

#include <nestor/modules/train/checkpoint.h>
#include <nestor/modules/train/file_io.h>

namespace nestor::modules {

/// write_tensors, saying what was written.
WrittenFile write_tensors_summed(const std::filesystem::path& file, const NamedTensors& tensors);

}  // namespace nestor::modules
