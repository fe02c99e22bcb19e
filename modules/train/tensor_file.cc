#include <algorithm>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include <nestor/modules/error.h>
#include <nestor/modules/train/checkpoint.h>
#include <nestor/modules/train/file_io.h>
#include <nestor/modules/train/tensor_file.h>

namespace nestor::modules {
namespace {

using Json = nlohmann::json;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // safetensors' own limit

struct DtypeName {
  const char* name;
  torch::ScalarType dtype;
};
constexpr DtypeName kDtypes[] = {{"F32", torch::kFloat32}, {"F64", torch::kFloat64}, {"BF16", torch::kBFloat16},
                                 {"F16", torch::kFloat16}, {"I64", torch::kInt64},   {"I32", torch::kInt32},
                                 {"U8", torch::kUInt8},    {"BOOL", torch::kBool}};

struct Entry {
  std::string name;
  torch::ScalarType dtype = torch::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< in the data
};

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw Error(file.string(), what, "the file is damaged or no safetensors file");
}

/// Top-level keys twice, as a JSON reader would silently merge them.
Json parse_header(const std::filesystem::path& file, const std::string& text) {
  std::set<std::string> keys;
  std::string twice;
  auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const std::exception&) {
    fail(file, "its header is no JSON");
  }
  if (!twice.empty()) fail(file, "tensor '" + twice + "' is there twice");
  if (!header.is_object()) fail(file, "its header is no JSON object");
  return header;
}

Entry parse_entry(const std::filesystem::path& file, const std::string& name, const Json& json,
                  std::uint64_t data_bytes) {
  auto bad = [&](const std::string& what) { fail(file, "tensor '" + name + "': " + what); };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    bad("needs dtype, shape and data_offsets");
  Entry entry;
  entry.name = name;
  const Json &dtype = json["dtype"], &shape = json["shape"], &offsets = json["data_offsets"];
  auto known = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const DtypeName& d) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == d.name;
  });
  if (known == std::end(kDtypes)) bad("unknown dtype " + dtype.dump());
  entry.dtype = known->dtype;
  if (!shape.is_array() || shape.size() > 64) bad("shape is no list of sizes");
  std::uint64_t bytes = c10::elementSize(entry.dtype);
  bool empty = false;
  for (const Json& size : shape) {
    if (!size.is_number_unsigned()) bad("shape is no list of sizes");
    const auto n = size.get<std::uint64_t>();
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) bad("a size is out of range");
    empty |= n == 0;
    entry.shape.push_back(static_cast<std::int64_t>(n));
  }
  for (std::int64_t size : entry.shape) {
    if (empty) break;
    if (static_cast<std::uint64_t>(size) > data_bytes / bytes) bad("shape is larger than the file");
    bytes *= static_cast<std::uint64_t>(size);
  }
  if (empty) bytes = 0;
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    bad("data_offsets are no two numbers");
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes) bad("data_offsets are outside the file");
  if (entry.end - entry.begin != bytes) bad("data_offsets do not fit shape and dtype");
  return entry;
}

}  // namespace

WrittenFile write_tensors_summed(const std::filesystem::path& file, const NamedTensors& tensors) {
  Json header = Json::object();
  header["__metadata__"] = {{"format", "nestor"}};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) throw Error(file.string(), "tensor '" + name + "' is undefined", "leave it out");
    auto known = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                              [&, &t = tensor](const DtypeName& d) { return d.dtype == t.scalar_type(); });
    if (known == std::end(kDtypes))
      throw Error(file.string(), "tensor '" + name + "' has a dtype that is not stored", "");
    const auto end = offset + tensor.nbytes();
    if (header.contains(name)) throw Error(file.string(), "tensor '" + name + "' is given twice", "");
    header[name] = {{"dtype", known->name}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw Error(file.string(), "a tensor's name is not UTF-8", "");
  }
  while (text.size() % 8 != 0) text.push_back(' ');  // data aligned for readers that map the file
  AsideFile out(file);
  std::uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::uint8_t>(text.size() >> (8 * i));
  out.write(length, sizeof length);
  out.write(text.data(), text.size());
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    Tensor plain = tensor.detach().to(torch::kCPU).contiguous();
    out.write(plain.data_ptr(), plain.nbytes());
  }
  return out.commit();
}

void write_tensors(const std::filesystem::path& file, const NamedTensors& tensors) {
  write_tensors_summed(file, tensors);
}

NamedTensors read_tensors(const std::filesystem::path& file, const std::set<std::string>* names) {
  InputFile in(file);
  if (in.size() < 8) fail(file, "it is shorter than its length field");
  std::uint8_t length_bytes[8];
  in.read(0, length_bytes, sizeof length_bytes);
  std::uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= static_cast<std::uint64_t>(length_bytes[i]) << (8 * i);
  if (length > kMaxHeader) fail(file, "its header is too large (" + std::to_string(length) + " bytes)");
  if (length > in.size() - 8) fail(file, "it ends within its header");
  std::string text(length, '\0');
  in.read(8, text.data(), length);
  const std::uint64_t data_bytes = in.size() - 8 - length;
  const Json header = parse_header(file, text);

  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items())
    if (name != "__metadata__") entries.push_back(parse_entry(file, name, json, data_bytes));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < at) fail(file, "tensor '" + entry.name + "' overlaps another");
    if (entry.begin > at) fail(file, "there is a hole before tensor '" + entry.name + "'");
    at = entry.end;
  }
  if (at != data_bytes) fail(file, "it is longer than its tensors");

  NamedTensors result;
  for (const Entry& entry : entries) {
    if (names && !names->count(entry.name)) continue;
    Tensor tensor = torch::empty(entry.shape, torch::TensorOptions().dtype(entry.dtype));
    in.read(8 + length + entry.begin, tensor.data_ptr(), entry.end - entry.begin);
    result.emplace_back(entry.name, std::move(tensor));
  }
  return result;
}

}  // namespace nestor::modules
