#include <algorithm>
#include <fstream>
#include <system_error>

#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/host_files.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/modules/error.h>
#include <nestor/modules/train/file_io.h>

namespace nestor::launch {
namespace fs = std::filesystem;
using actors::Error;

namespace {

bool holds(const fs::path& file, const std::string& text) {
  try {
    return read_text(file, 1 << 10) == text;
  } catch (const InputError&) {
    return false;
  }
}

bool is_whole(const fs::path& file, std::int64_t bytes, std::uint32_t crc32) {
  try {
    const modules::InputFile there(file);
    return there.size() == static_cast<std::uint64_t>(bytes) && there.crc32() == crc32;
  } catch (const modules::Error&) {
    return false;
  }
}

fs::path unfinished(const fs::path& file) {
  return file.string() + ".part";
}

}  // namespace

void HostFiles::describe(actors::MethodTable<HostFiles>& table) {
  table.type("files")
      .method("serve", &HostFiles::serve)
      .method("read", &HostFiles::read)
      .method("write", &HostFiles::write)
      .method("whole", &HostFiles::whole)
      .method("missing", &HostFiles::missing)
      .method("keep", &HostFiles::keep);
}

bool HostFiles::serve(fs::path run, fs::path probe, std::string text, std::int32_t lane) {
  run_ = run.lexically_normal();
  if (holds(probe, text)) {
    write_aside(answer_file(probe, lane), text);
    return true;
  }
  std::error_code error;
  fs::create_directories(run_ / "checkpoints", error);
  if (error) throw Error(run_.string(), "cannot be made on this host: " + error.message());
  check_writable(run_ / "checkpoints" / "any");
  return false;
}

const fs::path& HostFiles::inside(const fs::path& path) const {
  const fs::path below = path.lexically_normal().lexically_relative(run_);
  if (run_.empty() || below.empty() || *below.begin() == ".." || *below.begin() == ".")
    throw Error(name(), path.string() + " is not in the run folder");
  return path;
}

std::string HostFiles::read(fs::path file, std::uint64_t offset, std::uint64_t bytes) const {
  const modules::InputFile in(inside(file));
  if (offset > in.size() || bytes > in.size() - offset || bytes > kPart)
    throw Error(file.string(), "was asked for bytes that it does not have");
  std::string text(bytes, '\0');
  in.read(offset, text.data(), text.size());
  return text;
}

void HostFiles::write(fs::path file, std::uint64_t offset, std::string bytes) {
  std::error_code error;
  fs::create_directories(inside(file).parent_path(), error);
  const fs::path part = unfinished(file);
  if (offset != 0 && fs::file_size(part, error) != offset)
    throw Error(part.string(), "has another length than what was sent so far");
  std::ofstream out(part, std::ios::binary | (offset == 0 ? std::ios::trunc : std::ios::app));
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw Error(part.string(), "writing failed", "is this host's disk full?");
}

bool HostFiles::whole(fs::path file, std::int64_t bytes, std::uint32_t crc32) {
  const fs::path part = unfinished(inside(file));
  std::error_code error;
  if (is_whole(part, bytes, crc32)) {
    fs::rename(part, file, error);
    if (!error) return true;
  }
  fs::remove(part, error);
  return false;
}

std::vector<std::string> HostFiles::missing(fs::path folder, std::vector<modules::CheckpointFile> files) const {
  inside(folder);
  std::vector<std::string> names;
  for (const modules::CheckpointFile& file : files)
    if (!is_whole(folder / file.name, file.bytes, file.crc32)) names.push_back(file.name);
  return names;
}

void HostFiles::keep(fs::path folder, std::vector<std::string> kept) const {
  const fs::path partial = inside(folder).string() + ".partial";
  std::error_code error;
  if (fs::exists(partial, error)) modules::replace_folder(partial, folder);
  for (fs::directory_iterator at(folder.parent_path(), error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with("step-") || std::find(kept.begin(), kept.end(), name) != kept.end()) continue;
    std::error_code ignored;
    fs::remove_all(at->path(), ignored);
  }
}

}  // namespace nestor::launch
