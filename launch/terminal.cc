#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>

#include <nestor/launch/terminal.h>

namespace nestor::launch {

bool utf8_locale() {
  for (auto name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string_view locale(value);
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

std::size_t terminal_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 100;
  return size.ws_col;
}

}  // namespace nestor::launch
