#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nestor::launch {

/// A training's folder: names, lock and checkpoints (docs/formats.md). Holds the lock while it lives, so that two
/// trainings never write into one folder.
class RunFolder {
 public:
  enum class Open : std::uint8_t { fresh, resume, overwrite };

  /// `fresh` refuses a folder that a training was in; `resume` needs one with a checkpoint; `overwrite` removes what an
  /// earlier training left there, and nothing else. Throws InputError saying what to do.
  RunFolder(std::filesystem::path path, Open how);
  /// Throws the same without making, locking or removing anything: what is known before the data is read.
  static void check(const std::filesystem::path& path, Open how);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  std::filesystem::path checkpoint(std::int64_t step) const;
  /// Removes all but the newest `keep` checkpoints.
  void prune_checkpoints(std::int64_t keep) const;

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// The checkpoints of a run folder, oldest first. Half-written ones carry another name and are not among them.
std::vector<std::pair<std::int64_t, std::filesystem::path>> list_checkpoints(const std::filesystem::path& run);

}  // namespace nestor::launch
