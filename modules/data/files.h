#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace nestor::modules {

/// The content of a regular file. Throws Error "PATH: WHAT (HINT)": missing, a folder or device, unreadable, longer
/// than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// Writes aside in the same folder and renames: a reader sees the old file or the new one, whole.
void replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace nestor::modules
