#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <nestor/modules/error.h>
#include <nestor/modules/train/file_io.h>

namespace nestor::modules {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  const int code = errno;
  throw Error(file.string(), std::string(what) + ": " + std::strerror(code), "");
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace

std::uint32_t crc32_of(const void* data, std::size_t size, std::uint32_t start) {
  if (size == 0) return start;  // zlib takes a null pointer for a question about the start value
  return static_cast<std::uint32_t>(crc32_z(start, static_cast<const Bytef*>(data), size));
}

AsideFile::AsideFile(std::filesystem::path file) : file_(std::move(file)), aside_(file_.string() + ".tmp") {
  descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(aside_, "cannot be written");
}

AsideFile::~AsideFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(aside_.c_str());
}

void AsideFile::write(const void* data, std::size_t size) {
  written_.crc32 = crc32_of(data, size, written_.crc32);
  written_.bytes += static_cast<std::int64_t>(size);
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::write(descriptor_, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(aside_, "cannot be written");
    at += done;
    size -= static_cast<std::size_t>(done);
  }
}

WrittenFile AsideFile::commit() {
  if (::fsync(descriptor_) != 0) fail(aside_, "cannot be synced");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0 || ::rename(aside_.c_str(), file_.c_str()) != 0) {
    const int code = errno;
    ::unlink(aside_.c_str());
    errno = code;
    fail(file_, "cannot be put in place");
  }
  sync_folder(folder_of(file_));
  return written_;
}

InputFile::InputFile(std::filesystem::path file) : file_(std::move(file)) {
  // Not blocking: a named pipe in place of the file must not hang the reader.
  descriptor_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(file_, "cannot be read");
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error(file_.string(), "is no plain file", "");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::read(std::uint64_t offset, void* data, std::size_t size) const {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t done = ::pread(descriptor_, at, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(file_, "cannot be read");
    if (done == 0) throw Error(file_.string(), "ended early", "it was cut while it was read");
    at += done;
    offset += static_cast<std::uint64_t>(done);
    size -= static_cast<std::size_t>(done);
  }
}

std::uint32_t InputFile::crc32() const {
  std::vector<char> block(1 << 20);
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < size_; at += block.size()) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size_ - at));
    read(at, block.data(), size);
    crc = crc32_of(block.data(), size, crc);
  }
  return crc;
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a file system without it: nothing to sync
  ::fsync(descriptor);
  ::close(descriptor);
}

void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  if (::rename(from.c_str(), to.c_str()) == 0) return sync_folder(folder_of(to));
  if (errno != ENOTEMPTY && errno != EEXIST) fail(to, "cannot be put in place");
#ifdef RENAME_EXCHANGE
  // Exchanged in one step, so that at every moment one of the two is in place.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    std::filesystem::remove_all(from, error);
    return sync_folder(folder_of(to));
  }
#endif
  const std::filesystem::path old = to.string() + ".old";
  std::filesystem::remove_all(old, error);
  if (::rename(to.c_str(), old.c_str()) != 0 || ::rename(from.c_str(), to.c_str()) != 0)
    fail(to, "cannot be put in place");
  std::filesystem::remove_all(old, error);
  sync_folder(folder_of(to));
}

}  // namespace nestor::modules
