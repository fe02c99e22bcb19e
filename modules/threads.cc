#include <ATen/Parallel.h>

#include <nestor/modules/threads.h>

#ifdef NESTOR_OPENBLAS
extern "C" void openblas_set_num_threads(int);
#endif

namespace nestor::modules {

void set_operator_threads(int threads) {
  at::set_num_threads(threads);
#ifdef NESTOR_OPENBLAS
  openblas_set_num_threads(threads);
#endif
}

}  // namespace nestor::modules
