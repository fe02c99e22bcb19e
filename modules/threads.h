#pragma once

namespace nestor::modules {

/// Sets how many threads one operator of the calling thread may use, LibTorch's and the BLAS's alike. Each lane thread
/// calls it once; two lanes with all cores each are slower than with their share. LibTorch's count is per thread,
/// OpenBLAS's is per process: give all lanes of a process the same.
void set_operator_threads(int threads);

}  // namespace nestor::modules
