#pragma once

#include <stdexcept>
#include <string>

namespace nestor::scheduler {

/// Bad input or an impossible request. `where` is path:line, path:field or a field; `what()` is
/// "WHERE: WHAT (HINT)", one line. Thrown at the public surface; hot loops return values.
class Error : public std::runtime_error {
 public:
  Error(std::string where, const std::string& what, const std::string& hint)
      : std::runtime_error(where + ": " + what + (hint.empty() ? "" : " (" + hint + ")")), where_(std::move(where)) {}
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

}  // namespace nestor::scheduler
