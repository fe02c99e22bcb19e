#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nestor/launch/error.h>
#include <nestor/launch/files.h>

namespace nestor::launch {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// A descriptor closed, and its file removed, unless `keep` was called.
class AsideFile {
 public:
  AsideFile(std::filesystem::path target, int flags)
      : target_(std::move(target)), path_(target_.string() + ".partial." + std::to_string(::getpid())) {
    descriptor_ = ::open(path_.c_str(), flags, 0666);
    if (descriptor_ < 0) {
      int error = errno;
      throw InputError(target_.string(), "cannot be written: " + reason(error),
                       error == ENOENT ? "make the folder first" : "");
    }
  }
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;
  ~AsideFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!kept_) ::unlink(path_.c_str());
  }

  void write(std::string_view content) {
    while (!content.empty()) {
      auto written = ::write(descriptor_, content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw WorkError(target_.string(), "writing failed: " + reason(errno));
      content.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void keep() {
    // close() is where a network file system reports a full disk.
    int closed = ::close(std::exchange(descriptor_, -1));
    if (closed != 0) throw WorkError(target_.string(), "writing failed: " + reason(errno));
    if (::rename(path_.c_str(), target_.c_str()) != 0)
      throw InputError(target_.string(), "cannot be written: " + reason(errno));
    kept_ = true;
  }

 private:
  std::filesystem::path target_;
  std::string path_;
  int descriptor_ = -1;
  bool kept_ = false;
};

}  // namespace

std::string read_text(const std::filesystem::path& path, std::size_t limit) {
  bool standard = path == "-";
  std::string where = standard ? "standard input" : path.string();
  if (!standard) {
    std::error_code error;
    auto status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found) throw InputError(where, "no such file");
    if (status.type() == std::filesystem::file_type::directory) throw InputError(where, "is a folder, not a file");
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(standard ? nullptr : std::fopen(path.c_str(), "rb"),
                                                         &std::fclose);
  if (!standard && !opened) throw InputError(where, "cannot be read: " + reason(errno));
  std::FILE* file = standard ? stdin : opened.get();

  std::string text;
  char block[1 << 16];
  while (auto count = std::fread(block, 1, sizeof block, file)) {
    if (text.size() + count > limit) throw InputError(where, "is longer than " + std::to_string(limit) + " bytes");
    text.append(block, count);
  }
  if (std::ferror(file)) throw InputError(where, "cannot be read: " + reason(errno));
  return text;
}

void write_aside(const std::filesystem::path& path, std::string_view content) {
  if (std::filesystem::is_directory(path)) throw InputError(path.string(), "is a folder, not a file");
  // A pipe or device (/dev/stdout) cannot be renamed over.
  std::error_code error;
  auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    std::ofstream stream(path, std::ios::binary);
    if (!stream.write(content.data(), static_cast<std::streamsize>(content.size())).flush())
      throw WorkError(path.string(), "writing failed");
    return;
  }
  AsideFile file(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  file.write(content);
  file.keep();
}

void check_writable(const std::filesystem::path& path) {
  auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw InputError(path.string(), "cannot be written: there is no folder " + folder.string(), "make it first");
  if (std::filesystem::is_directory(path, error)) throw InputError(path.string(), "is a folder, not a file");
  if (::access(folder.c_str(), W_OK) != 0) throw InputError(path.string(), "cannot be written: " + reason(errno));
}

void write_output(const std::filesystem::path& output, std::string_view content) {
  if (!output.empty() && output != "-") return write_aside(output, content);
  std::cout.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!content.ends_with('\n')) std::cout.put('\n');
  if (!std::cout.flush()) throw WorkError("standard output", "writing failed");
}

std::string readable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    auto byte = static_cast<unsigned char>(text[i]);
    std::size_t length = byte < 0x80                   ? 1
                         : byte >= 0xC2 && byte < 0xE0 ? 2
                         : byte >= 0xE0 && byte < 0xF0 ? 3
                         : byte >= 0xF0 && byte < 0xF5 ? 4
                                                       : 0;
    bool good = length > 0 && i + length <= text.size() && byte >= 0x20 && byte != 0x7F;
    std::uint32_t point = length < 2 ? byte : byte & (0x7Fu >> length);
    for (std::size_t j = 1; good && j < length; ++j) {
      auto next = static_cast<unsigned char>(text[i + j]);
      good = (next & 0xC0) == 0x80;
      point = point << 6 | (next & 0x3F);
    }
    // Over-long forms, surrogates and what lies beyond Unicode.
    if (good && length == 3) good = point >= 0x800 && (point < 0xD800 || point > 0xDFFF);
    if (good && length == 4) good = point >= 0x10000 && point <= 0x10FFFF;
    out += good ? text.substr(i, length) : std::string_view("\xEF\xBF\xBD");
    i += good ? length : 1;
  }
  return out;
}

std::string one_line(std::string_view text, std::size_t limit) {
  std::string line;
  for (char c : text) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    if (c == ' ' && line.ends_with(' ')) continue;
    line.push_back(c);
  }
  while (line.ends_with(' ')) line.pop_back();
  if (line.size() > limit) {
    line.resize(limit);
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80) line.pop_back();
    line += " ...";
  }
  return line;
}

}  // namespace nestor::launch
