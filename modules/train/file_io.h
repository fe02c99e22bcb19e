#pragma once

#include <cstdint>
#include <filesystem>

namespace nestor::modules {

// Files that are written whole or not at all: checkpoints, and copies of them.

struct WrittenFile {
  std::int64_t bytes = 0;
  std::uint32_t crc32 = 0;  ///< zlib's
};

/// Writes FILE.tmp; `commit` syncs it and renames it to FILE. Without commit nothing is left. Throws Error.
class AsideFile {
 public:
  explicit AsideFile(std::filesystem::path file);
  ~AsideFile();
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;
  void write(const void* data, std::size_t size);
  WrittenFile commit();

 private:
  std::filesystem::path file_, aside_;
  int descriptor_ = -1;
  WrittenFile written_;
};

/// A file read by offset; its size is taken once. Throws Error where it cannot be opened, is no plain file or ends
/// early.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path file);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  std::uint64_t size() const { return size_; }
  void read(std::uint64_t offset, void* data, std::size_t size) const;
  std::uint32_t crc32() const;  ///< of the whole file

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

std::uint32_t crc32_of(const void* data, std::size_t size, std::uint32_t start = 0);
/// Makes a rename in this folder last through a power cut.
void sync_folder(const std::filesystem::path& folder);
/// Puts the folder `from` at `to` in one step; what was at `to` is removed. Throws Error.
void replace_folder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace nestor::modules
