#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nestor/actors/actor.h>
#include <nestor/actors/executor.h>
#include <nestor/actors/method_table.h>

namespace nestor::launch {

/// The actor "files" of a worker process: a job's run folder as this host has it, for the head, which may have another
/// disk. Touches nothing outside of that folder.
class HostFiles final : public actors::Actor {
 public:
  static void describe(actors::MethodTable<HostFiles>& table);

  /// From now on for the run folder `run`. Whether the file `probe` is here and holds `text`, as it does for who wrote
  /// it; if so, `answer_file(probe, lane)` is written too. If not, `run` is a folder of this host's own: it is made,
  /// and proven to be one that can be written to. Throws Error.
  bool serve(std::filesystem::path run, std::filesystem::path probe, std::string text, std::int32_t lane);
  /// `bytes` from `offset` on.
  std::string read(std::filesystem::path file, std::uint64_t offset, std::uint64_t bytes) const;
  /// Puts bytes at `offset` of a file that takes its place only when `whole` finds it to be what was sent.
  void write(std::filesystem::path file, std::uint64_t offset, std::string bytes);
  /// False where what was written is not of that size and sum: it is dropped.
  bool whole(std::filesystem::path file, std::int64_t bytes, std::uint32_t crc32);
  /// Which of these are not there, or not whole, in `folder`.
  std::vector<std::string> missing(std::filesystem::path folder, std::vector<modules::CheckpointFile> files) const;
  /// FOLDER.partial, where there is one, becomes `folder`; checkpoints beside it that are none of `kept` go.
  void keep(std::filesystem::path folder, std::vector<std::string> kept) const;

  static std::filesystem::path answer_file(const std::filesystem::path& probe, std::int32_t lane) {
    return probe.string() + ".lane" + std::to_string(lane);
  }
  static constexpr std::uint64_t kPart = std::uint64_t{4} << 20;  ///< bytes of a file in one call

 private:
  /// Throws Error where `path` is not inside the run folder.
  const std::filesystem::path& inside(const std::filesystem::path& path) const;

  std::filesystem::path run_;
};

}  // namespace nestor::launch
