#pragma once

#include <string>

#include <nestor/actors/future.h>

namespace nestor::actors {

class Runtime;

/// Calls a method that an actor of this process lists in describe(), where the caller has no C++ type for it: arguments
/// as a JSON array, the result as JSON (plain.h says of which types). Throws Error where there is no such actor or
/// method, naming those there are, and where the arguments do not fit. Any thread.
Future<std::string> call_as_text(Runtime& runtime, const std::string& actor, const std::string& method,
                                 const std::string& arguments);

}  // namespace nestor::actors
