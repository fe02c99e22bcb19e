// Runs a fuzzer's target over files and folders given as arguments, with any compiler: the corpus as a test.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

int replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << path.string() << ": cannot be read\n";
    std::exit(1);
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::cout << path.string() << std::endl;  // a crash is then known by its file
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      count += replay(argv[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) count += replay(entry.path());
  }
  if (count == 0) std::cerr << "no input was found\n";
  return count == 0;
}
