#pragma once

#include <string>

namespace nestor::launch {

/// A line of a cluster's process to its log, with the time: "2026-01-31 12:00:00 [lane0] text".
void log_line(const std::string& who, const std::string& text);

}  // namespace nestor::launch
