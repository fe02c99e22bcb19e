#pragma once

#include <stdexcept>
#include <string>

namespace nestor::launch {

/// Bad usage or bad input: exit 2. `what()` is "WHERE: WHAT (HINT)", one line.
class InputError : public std::runtime_error {
 public:
  InputError(const std::string& where, const std::string& what, const std::string& hint = "")
      : std::runtime_error(where + ": " + what + (hint.empty() ? "" : " (" + hint + ")")) {}
};

/// The work failed though the input was good: exit 1. Same form.
class WorkError : public std::runtime_error {
 public:
  WorkError(const std::string& where, const std::string& what, const std::string& hint = "")
      : std::runtime_error(where + ": " + what + (hint.empty() ? "" : " (" + hint + ")")) {}
};

}  // namespace nestor::launch
