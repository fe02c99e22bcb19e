#pragma once

#include <string>

namespace nestor::actors::remote {

/// Of the library that is compiled in.
const std::string& version();
/// Of the running program's file: workers must run what the head runs. Read once.
const std::string& program_digest();

}  // namespace nestor::actors::remote
