#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nestor/modules/batch.h>

namespace nestor::modules {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// One safetensors file: 8 bytes length, a JSON header, the tensors' bytes. Written aside, synced, renamed.
/// Throws Error naming the file.
void write_tensors(const std::filesystem::path& file, const NamedTensors& tensors);
/// All tensors of a file, or those in `names`. Anything torn, overlapping or out of range is an Error naming file and
/// tensor; nothing is returned then.
NamedTensors read_tensors(const std::filesystem::path& file, const std::set<std::string>* names = nullptr);

/// What one lane wrote: a checkpoint's index is made of these.
struct CheckpointFile {
  std::string name;  ///< in the folder, "lane-0.safetensors"
  std::int64_t bytes = 0;
  std::uint32_t crc32 = 0;  ///< of the whole file, zlib's
  std::vector<std::string> tensors;
};

struct CheckpointInfo {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  std::vector<CheckpointFile> files;
};

/// A checkpoint is a folder: lane files with parameters and optimizer state ("NAME.exp_avg", ...) by canonical name,
/// and checkpoint.json (nestor.checkpoint/1), written last. While it is written it is called FOLDER.partial.
class CheckpointWriter {
 public:
  /// Makes FOLDER.partial, empty. Throws Error.
  explicit CheckpointWriter(std::filesystem::path folder);
  /// A writer of lanes' files into the FOLDER.partial that another has made, perhaps in another process; made where it
  /// is not there, as on a host with a disk of its own. Throws Error.
  static CheckpointWriter join(std::filesystem::path folder);
  /// Writes one lane's file; may be called from several threads for different lanes. Throws Error.
  CheckpointFile write_lane(std::int32_t lane, const NamedTensors& tensors) const;
  /// Writes the index and renames the folder into place; an older one of that name is replaced. Throws Error where two
  /// files hold one tensor.
  void finish(const CheckpointInfo& info) const;

 private:
  CheckpointWriter() = default;
  std::filesystem::path folder_, partial_;
};

/// The index, checked: format, every file's presence and size. Throws Error.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& folder);
/// The tensors of these names, whichever lanes wrote them; checksums are verified. Throws Error naming one missing.
NamedTensors read_checkpoint(const std::filesystem::path& folder, const std::set<std::string>& names);
/// The complete checkpoint of the highest step in `folder` (.../step-N); torn ones are passed over.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);

/// Copies values by name into existing tensors (parameters, optimizer state) of the same shape and dtype. Everything is
/// checked before anything is changed. Throws Error naming the tensor.
void load_into(const NamedTensors& target, const NamedTensors& source, const std::string& where);

}  // namespace nestor::modules
