#include <system_error>

#include <nestor/launch/error.h>
#include <nestor/launch/prepare_icons.h>

namespace fs = std::filesystem;

namespace nestor::launch {
namespace {

void copy_size(const fs::path& from, const fs::path& to, IconCount& count) {
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (entry.path().extension() != ".png" || !fs::is_regular_file(entry.path())) continue;  // follows links
    auto target = to / fs::relative(entry.path().parent_path(), from) / entry.path().filename();
    fs::create_directories(target.parent_path());
    fs::copy(entry.path(), target, fs::copy_options::copy_symlinks);
    ++(entry.is_symlink() ? count.captions : count.pictures);
  }
}

}  // namespace

IconCount prepare_icons(const IconOptions& options) {
  std::error_code error;
  if (!fs::is_directory(options.theme, error))
    throw InputError(options.theme.string(), "there is no icon theme",
                     "install it (apt install tango-icon-theme) or name its folder with --from");
  auto output = options.output.lexically_normal();
  if (!output.has_filename()) output = output.parent_path();
  if (fs::exists(output, error) && !fs::exists(output / "index.theme", error))
    throw InputError(output.string(), "exists and is no icon set of ours", "name another with -o");

  auto aside = output;
  aside += ".partial";
  IconCount count;
  try {
    fs::remove_all(aside);
    fs::create_directories(aside);
    for (const auto& entry : fs::directory_iterator(options.theme)) {
      auto name = entry.path().filename().string();
      if (entry.is_directory() && name.find('x') != name.npos && name[0] >= '0' && name[0] <= '9')
        copy_size(entry.path(), aside / name, count);
    }
    if (count.pictures == 0) {
      fs::remove_all(aside);
      throw InputError(options.theme.string(), "holds no pictures", "name the theme's own folder with --from");
    }
    fs::copy_file(options.theme / "index.theme", aside / "index.theme");  // says what it is and whose
    fs::remove_all(output);
    fs::rename(aside, output);
  } catch (const fs::filesystem_error& failed) {
    fs::remove_all(aside, error);
    throw InputError(output.string(), "cannot be made: " + failed.code().message(), "name another with -o");
  }
  return count;
}

}  // namespace nestor::launch
