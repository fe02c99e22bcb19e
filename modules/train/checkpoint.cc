#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include <nlohmann/json.hpp>

#include <nestor/modules/error.h>
#include <nestor/modules/train/checkpoint.h>
#include <nestor/modules/train/file_io.h>
#include <nestor/modules/train/tensor_file.h>

namespace nestor::modules {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;
constexpr const char* kFormat = "nestor.checkpoint/1";
constexpr const char* kIndex = "checkpoint.json";
constexpr std::uint64_t kMaxIndex = 1 << 28;

/// Over the index without its own "crc32": a flipped digit is noticed.
std::uint32_t index_crc(Json index) {
  index.erase("crc32");
  const std::string text = index.dump();
  return crc32_of(text.data(), text.size());
}

template <class T>
T number(const Json& json, const char* field, const fs::path& file) {
  if (!json.contains(field) || !json[field].is_number_unsigned() ||
      json[field].get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<T>::max()))
    throw Error(file.string() + ":" + field, "is no number or out of range", "the checkpoint is damaged");
  return json[field].get<T>();
}

std::string plain_name(const Json& json, const fs::path& file) {
  if (!json.is_string()) throw Error(file.string() + ":files", "a name is no text", "the checkpoint is damaged");
  auto name = json.get<std::string>();
  // A name leads nowhere but into the folder.
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    throw Error(file.string() + ":files", "'" + name + "' is no file of the folder", "the checkpoint is damaged");
  return name;
}

void verify_file(const fs::path& folder, const CheckpointFile& file) {
  if (InputFile(folder / file.name).crc32() != file.crc32)
    throw Error((folder / file.name).string(), "its checksum is wrong", "it is damaged; use an older checkpoint");
}

}  // namespace

CheckpointWriter::CheckpointWriter(fs::path folder)
    : folder_(std::move(folder)), partial_(folder_.string() + ".partial") {
  std::error_code error;
  fs::remove_all(partial_, error);
  fs::create_directories(partial_, error);
  if (error) throw Error(partial_.string(), "cannot be made: " + error.message(), "");
}

CheckpointWriter CheckpointWriter::join(fs::path folder) {
  CheckpointWriter writer;
  writer.folder_ = std::move(folder);
  writer.partial_ = writer.folder_.string() + ".partial";
  std::error_code error;
  fs::create_directories(writer.partial_, error);
  if (error) throw Error(writer.partial_.string(), "cannot be made: " + error.message(), "");
  return writer;
}

CheckpointFile CheckpointWriter::write_lane(std::int32_t lane, const NamedTensors& tensors) const {
  CheckpointFile result;
  result.name.append("lane-").append(std::to_string(lane)).append(".safetensors");
  const WrittenFile written = write_tensors_summed(partial_ / result.name, tensors);
  result.bytes = written.bytes;
  result.crc32 = written.crc32;
  for (const auto& [name, tensor] : tensors) result.tensors.push_back(name);
  return result;
}

void CheckpointWriter::finish(const CheckpointInfo& info) const {
  Json index = {{"format", kFormat}, {"step", info.step}, {"seed", info.seed}};
  Json files = Json::array(), tensors = Json::object();
  for (const auto& file : info.files) {
    std::error_code error;
    if (fs::file_size(partial_ / file.name, error) != static_cast<std::uintmax_t>(file.bytes) || error)
      throw Error((partial_ / file.name).string(), "is not what was written", "a lane's file is missing or cut");
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32", file.crc32}});
    for (const auto& name : file.tensors) {
      if (tensors.contains(name))
        throw Error(folder_.string(), "tensor '" + name + "' is in two files", "one lane writes it");
      tensors[name] = file.name;
    }
  }
  index["files"] = std::move(files);
  index["tensors"] = std::move(tensors);
  index["crc32"] = index_crc(index);
  const std::string text = index.dump(1) + "\n";
  AsideFile out(partial_ / kIndex);
  out.write(text.data(), text.size());
  out.commit();
  replace_folder(partial_, folder_);
}

CheckpointInfo read_checkpoint_info(const fs::path& folder) {
  const fs::path file = folder / kIndex;
  InputFile in(file);
  if (in.size() > kMaxIndex) throw Error(file.string(), "is too large", "it is no checkpoint's index");
  std::string text(in.size(), '\0');
  in.read(0, text.data(), text.size());
  Json index = Json::parse(text, nullptr, false);
  if (index.is_discarded() || !index.is_object())
    throw Error(file.string(), "is no JSON object", "the checkpoint is damaged");
  if (!index.contains("format") || index["format"] != kFormat)
    throw Error(file.string() + ":format", "is not " + std::string(kFormat), "another program or version wrote it");
  if (!index.contains("crc32") || !index["crc32"].is_number_unsigned() || index["crc32"] != index_crc(index))
    throw Error(file.string() + ":crc32", "does not fit the rest", "the checkpoint is damaged");
  CheckpointInfo info;
  info.step = number<std::int64_t>(index, "step", file);
  info.seed = number<std::uint64_t>(index, "seed", file);
  if (!index.contains("files") || !index["files"].is_array() || !index.contains("tensors") ||
      !index["tensors"].is_object())
    throw Error(file.string(), "has no files or tensors", "the checkpoint is damaged");
  for (const Json& entry : index["files"]) {
    if (!entry.is_object() || !entry.contains("name"))
      throw Error(file.string() + ":files", "an entry has no name", "the checkpoint is damaged");
    CheckpointFile lane;
    lane.name = plain_name(entry["name"], file);
    lane.bytes = number<std::int64_t>(entry, "bytes", file);
    lane.crc32 = number<std::uint32_t>(entry, "crc32", file);
    if (InputFile(folder / lane.name).size() != static_cast<std::uint64_t>(lane.bytes))
      throw Error((folder / lane.name).string(), "has another size than the index says", "the checkpoint is torn");
    info.files.push_back(std::move(lane));
  }
  for (const auto& [tensor, name] : index["tensors"].items()) {
    auto lane = std::find_if(info.files.begin(), info.files.end(),
                             [&, &n = name](const CheckpointFile& f) { return n.is_string() && n == f.name; });
    if (lane == info.files.end())
      throw Error(file.string() + ":tensors", "'" + tensor + "' is in no file", "the checkpoint is damaged");
    lane->tensors.push_back(tensor);
  }
  return info;
}

NamedTensors read_checkpoint(const fs::path& folder, const std::set<std::string>& names) {
  const CheckpointInfo info = read_checkpoint_info(folder);
  std::set<std::string> missing = names;
  for (const auto& file : info.files)
    for (const auto& name : file.tensors) missing.erase(name);
  if (!missing.empty())
    throw Error(folder.string(), "has no tensor '" + *missing.begin() + "'", "another model wrote it");
  NamedTensors result;
  for (const auto& file : info.files) {
    std::set<std::string> wanted;
    for (const auto& name : file.tensors)
      if (names.count(name)) wanted.insert(name);
    if (wanted.empty()) continue;
    verify_file(folder, file);
    NamedTensors tensors = read_tensors(folder / file.name, &wanted);
    if (tensors.size() != wanted.size())
      throw Error((folder / file.name).string(), "lacks tensors that the index promises", "the checkpoint is damaged");
    for (auto& tensor : tensors) result.push_back(std::move(tensor));
  }
  return result;
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    constexpr std::string_view kPrefix = "step-";
    if (name.rfind(kPrefix, 0) != 0) continue;
    std::int64_t step = 0;
    auto [stop, code] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (code == std::errc() && stop == name.data() + name.size()) found.emplace_back(step, at->path());
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  for (const auto& [step, path] : found) {
    try {
      const CheckpointInfo info = read_checkpoint_info(path);
      for (const auto& file : info.files) verify_file(path, file);
      return path;
    } catch (const Error&) {
      continue;  // torn: an older one is good
    }
  }
  return std::nullopt;
}

void load_into(const NamedTensors& target, const NamedTensors& source, const std::string& where) {
  std::map<std::string_view, const Tensor*> values;
  for (const auto& [name, tensor] : source) values[name] = &tensor;
  for (const auto& [name, tensor] : target) {
    auto value = values.find(name);
    if (value == values.end()) throw Error(where, "has no tensor '" + name + "'", "another model wrote it");
    if (value->second->sizes() != tensor.sizes())
      throw Error(where, "tensor '" + name + "' has another shape", "another model wrote it");
    if (value->second->scalar_type() != tensor.scalar_type())
      throw Error(where, "tensor '" + name + "' has another dtype", "run.dtype must be the one it was written with");
  }
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : target) {
    Tensor into = tensor;
    into.copy_(*values[name]);
  }
}

}  // namespace nestor::modules
