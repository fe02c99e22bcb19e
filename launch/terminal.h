#pragma once

#include <cstddef>

namespace nestor::launch {

/// Does the user's locale show UTF-8?
bool utf8_locale();
/// Characters in a line of the terminal behind a file descriptor; 100 where there is none, or a very narrow one.
std::size_t terminal_width(int descriptor);

}  // namespace nestor::launch
