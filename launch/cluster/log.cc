#include <cstdio>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nestor/launch/cluster/log.h>

namespace nestor::launch {

void log_line(const std::string& who, const std::string& text) {
  fmt::print(stderr, "{:%F %T} [{}] {}\n", fmt::localtime(std::time(nullptr)), who, text);
}

}  // namespace nestor::launch
