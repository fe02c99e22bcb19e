#pragma once

#include <exception>
#include <type_traits>
#include <vector>

#include <nestor/actors/future.h>

namespace nestor::actors {

/// Waits for all, so that nobody is left at work when the first failure, in their order, is thrown. Their results.
template <class R>
auto get_all(std::vector<Future<R>> futures) {
  [[maybe_unused]] std::vector<std::conditional_t<std::is_void_v<R>, char, R>> results;
  std::exception_ptr first;
  for (Future<R>& future : futures) {
    try {
      if constexpr (std::is_void_v<R>) {
        future.get();
      } else {
        results.push_back(future.get());
      }
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  if constexpr (!std::is_void_v<R>) return results;
}

}  // namespace nestor::actors
