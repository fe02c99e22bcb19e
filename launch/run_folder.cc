#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/run_folder.h>

namespace fs = std::filesystem;

namespace nestor::launch {
namespace {

constexpr const char* kFiles[] = {"config.yaml",   "plan.json",   "metrics.jsonl",  "trace.json",
                                  "timeline.json", "report.html", "vocabulary.json"};
constexpr const char* kLock = ".lock";

bool used(const fs::path& path) {
  return std::any_of(std::begin(kFiles), std::end(kFiles), [&](auto name) { return fs::exists(path / name); }) ||
         !list_checkpoints(path).empty();
}

}  // namespace

void RunFolder::check(const fs::path& path, Open how) {
  std::error_code error;
  auto where = path.string();
  if (how == Open::resume && !fs::is_directory(path, error))
    throw InputError(where, "there is no run to resume", "leave out --resume to start one");
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    throw InputError(where, "is a file, not a folder", "name another with --set run.dir=...");
  if (how == Open::fresh && used(path))
    throw InputError(where, "holds an earlier run",
                     "--resume goes on with it, --overwrite starts anew, --set run.dir=... goes elsewhere");
  if (how == Open::resume && list_checkpoints(path).empty())
    throw InputError(where, "has no checkpoint to resume from", "start anew with --overwrite");
}

RunFolder::RunFolder(fs::path path, Open how) : path_(std::move(path)) {
  check(path_, how);
  std::error_code error;
  auto where = path_.string();
  fs::create_directories(path_, error);
  if (error) throw InputError(where, "cannot be made: " + error.message(), "name another with --set run.dir=...");

  lock_ = ::open(file(kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0)
    throw InputError(where, "cannot be written to: " + std::generic_category().message(errno),
                     "name another with --set run.dir=...");
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      char text[32] = {};
      auto length = std::max<ssize_t>(::pread(lock_, text, sizeof text - 1, 0), 0);
      auto holder = one_line({text, static_cast<std::size_t>(length)});
      throw InputError(where, "another training runs in it" + (holder.empty() ? "" : ", process " + holder),
                       "wait for it, stop it, or name another with --set run.dir=...");
    }
    auto self = std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, self.data(), self.size(), 0) < 0)
      throw WorkError(where, "writing failed: " + std::generic_category().message(errno));

    check(path_, how);  // again: another training may have ended since
    if (how == Open::overwrite) {
      for (auto name : kFiles) fs::remove(path_ / name, error);
      fs::remove_all(path_ / "checkpoints", error);
    }
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

// The lock file stays: removing it would let a third training lock a new file while a second waits on the old one.
RunFolder::~RunFolder() {
  ::close(lock_);
}

fs::path RunFolder::checkpoint(std::int64_t step) const {
  return path_ / "checkpoints" / ("step-" + std::to_string(step));
}

void RunFolder::prune_checkpoints(std::int64_t keep) const {
  auto all = list_checkpoints(path_);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < all.size(); ++i) {
    // Renamed first: a checkpoint that is half removed must not look like one.
    std::error_code error;
    auto doomed = all[i].second;
    doomed += ".removed";
    fs::rename(all[i].second, doomed, error);
    if (!error) fs::remove_all(doomed, error);
  }
}

std::vector<std::pair<std::int64_t, fs::path>> list_checkpoints(const fs::path& run) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(run / "checkpoints", error), end; !error && entry != end; entry.increment(error)) {
    auto name = entry->path().filename().string();
    if (!name.starts_with("step-") || !entry->is_directory(error)) continue;
    std::int64_t step = 0;
    auto begin = name.data() + 5, last = name.data() + name.size();
    auto [rest, failed] = std::from_chars(begin, last, step);
    if (failed == std::errc() && rest == last && step >= 0) found.emplace_back(step, entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace nestor::launch
