#include <cstdlib>

#include <cxxabi.h>

#include <nestor/actors/detail/call.h>

namespace nestor::actors::detail {

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);  // NOLINT: the ABI's contract
  return result;
}

std::exception_ptr call_failed(const std::string& actor, const std::string& method) {
  const std::exception_ptr cause = std::current_exception();
  try {
    throw;
  } catch (const Error& error) {
    // One that names this actor already is not prefixed twice.
    const std::string prefix = actor + ": ";
    std::string what = error.what();
    if (what.starts_with(prefix)) what.erase(0, prefix.size());
    return std::make_exception_ptr(CallFailed(actor, method, what, cause));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(CallFailed(actor, method, error.what(), cause));
  } catch (...) {
    return std::make_exception_ptr(CallFailed(actor, method, "threw something that is no std::exception", cause));
  }
}

}  // namespace nestor::actors::detail
