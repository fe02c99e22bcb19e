#pragma once

#include <memory>
#include <string>

#include <ucp/api/ucp.h>

#include <nestor/comm/ucx.h>

namespace nestor::comm::ucx {

/// UCX's library context, with our settings over those of the environment.
class Context {
 public:
  /// `shared`: several workers of it run on several threads. Throws std::runtime_error with the reason.
  Context(const UcxOptions& options, bool shared);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ucp_context_h get() const { return context_; }

 private:
  ucp_context_h context_ = nullptr;
};

/// What UCX prints about itself by one of its print functions.
template <class Print>
std::string printed(Print print) {
  char* text = nullptr;
  std::size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  if (file == nullptr) return {};
  print(file);
  fclose(file);
  std::string result(text, size);
  free(text);
  return result;
}

}  // namespace nestor::comm::ucx
