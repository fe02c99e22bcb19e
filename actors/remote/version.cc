#include <array>
#include <cstdint>
#include <fstream>

#include <fmt/format.h>

#include <nestor/actors/remote/version.h>

#ifndef NESTOR_VERSION
#define NESTOR_VERSION "development"
#endif

namespace nestor::actors::remote {

const std::string& version() {
  static const std::string text = NESTOR_VERSION;
  return text;
}

const std::string& program_digest() {
  static const std::string digest = [] {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over 8-byte words
    std::array<std::uint64_t, 8192> words;
    while (file) {
      words.fill(0);
      file.read(reinterpret_cast<char*>(words.data()), sizeof words);
      for (std::int64_t i = 0; i < (file.gcount() + 7) / 8; ++i)
        hash = (hash ^ words[static_cast<std::size_t>(i)]) * 0x100000001b3u;
    }
    return fmt::format("{:016x}", hash);
  }();
  return digest;
}

}  // namespace nestor::actors::remote
