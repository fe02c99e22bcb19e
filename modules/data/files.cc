#include <cerrno>
#include <cstring>
#include <fstream>

#include <unistd.h>

#include <nestor/modules/data/files.h>
#include <nestor/modules/error.h>

namespace nestor::modules {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path, std::int64_t max_bytes) {
  std::error_code failed;
  const auto status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found) {
    const bool dangling = fs::is_symlink(fs::symlink_status(path, failed));
    throw Error(path.string(), dangling ? "is a link to nothing" : "does not exist", "check the path");
  }
  if (fs::is_directory(status)) throw Error(path.string(), "is a folder", "a file is needed here");
  if (!fs::is_regular_file(status)) throw Error(path.string(), "is not a regular file", "check the path");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path.string(), std::string("cannot be opened: ") + std::strerror(errno), "check its rights");
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, failed));
  if (failed || bytes > max_bytes) {
    throw Error(path.string(), "has " + std::to_string(bytes) + " bytes",
                "at most " + std::to_string(max_bytes) + " are read");
  }
  std::string content(static_cast<std::size_t>(bytes), '\0');
  file.read(content.data(), bytes);
  if (file.gcount() != bytes) throw Error(path.string(), "ended while it was read", "is it being written?");
  return content;
}

void replace_file(const fs::path& path, std::string_view content) {
  fs::path aside = path;
  aside += ".part-" + std::to_string(::getpid());
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  std::error_code failed;
  if (file) {
    fs::rename(aside, path, failed);
    if (!failed) return;
  }
  const std::string why = failed ? failed.message() : std::strerror(errno);
  std::error_code ignored;
  fs::remove(aside, ignored);
  throw Error(path.string(), "cannot be written: " + why, "check that the folder exists and has room");
}

}  // namespace nestor::modules
