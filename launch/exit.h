#pragma once

#include <exception>
#include <string>
#include <utility>

namespace nestor::launch {

enum Exit : int { success = 0, failed = 1, bad_input = 2 };

/// The one place where an exception becomes an exit code and a line (docs/errors.md).
std::pair<Exit, std::string> exit_of(const std::exception_ptr& error);

}  // namespace nestor::launch
