#pragma once

#include <stdexcept>
#include <string>

namespace nestor::modules {

/// Bad input (config, image, checkpoint, shape) or a model declared wrongly. One line "WHERE: WHAT (HINT)".
class Error : public std::runtime_error {
 public:
  Error(std::string where, const std::string& what, const std::string& hint)
      : std::runtime_error(where + ": " + what + (hint.empty() ? "" : " (" + hint + ")")), where_(std::move(where)) {}
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

}  // namespace nestor::modules
