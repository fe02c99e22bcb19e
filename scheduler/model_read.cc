#include <cmath>

#include <nestor/scheduler/document.h>
#include <nestor/scheduler/model_costs.h>

namespace nestor::scheduler {
namespace {

constexpr std::string_view kFormat = "nestor.model/1";

std::int32_t count(const Field& map, std::string_view key, std::int64_t most = 1 << 24) {
  const Field field = map.at(key);
  const std::int64_t value = field.integer();
  if (value < 1 || value > most) field.fail("is " + std::to_string(value), "1 to " + std::to_string(most));
  return static_cast<std::int32_t>(value);
}
std::int32_t count_or(const Field& map, std::string_view key, std::int32_t otherwise) {
  return map.has(key) ? count(map, key) : otherwise;
}
double amount(const Field& map, std::string_view key, double least, double most) {
  const Field field = map.at(key);
  const double value = field.number();
  if (!(value >= least && value <= most)) field.fail("is out of range");
  return value;
}
bool flag_or(const Field& map, std::string_view key, bool otherwise) {
  return map.has(key) ? map.at(key).boolean() : otherwise;
}

TransformerModel read_layer(const Field& map, bool gated) {
  TransformerModel l;
  l.layers = count(map, "layers", 1 << 16);
  l.width = count(map, "width");
  l.heads = count(map, "heads");
  if (!map.has("head_dim") && l.width % l.heads != 0) map.at("heads").fail("does not divide width", "give head_dim");
  l.head_dim = count_or(map, "head_dim", std::max(1, l.width / l.heads));
  l.kv_heads = count_or(map, "kv_heads", l.heads);
  l.ffn = count(map, "ffn");
  l.experts = count_or(map, "experts", 1);
  l.top_k = count_or(map, "top_k", 1);
  if (l.top_k > l.experts) map.at("top_k").fail("is more than experts");
  l.gated = flag_or(map, "gated", gated);
  return l;
}

void read_llm(const Field& map, ModelDescription& model) {
  map.expect_keys({"layers", "width", "heads", "kv_heads", "head_dim", "ffn", "experts", "top_k", "gated", "vocabulary",
                   "tied", "trainable", "sequence"});
  model.llm.layer = read_layer(map, true);
  model.llm.vocabulary = count(map, "vocabulary");
  model.llm.tied = flag_or(map, "tied", false);
  model.llm.trainable = flag_or(map, "trainable", true);
  model.sequence = count(map, "sequence");
}

PoolModel read_encoder(const Field& map, const std::string& name) {
  map.expect_keys({"layers", "width", "heads", "kv_heads", "head_dim", "ffn", "experts", "top_k", "gated", "patch",
                   "image_size", "images", "merge", "trainable"});
  PoolModel pool;
  pool.name = name;
  pool.layer = read_layer(map, false);
  const std::int32_t patch = count(map, "patch"), size = count(map, "image_size", 1 << 16);
  if (size % patch != 0) map.at("patch").fail("does not divide image_size");
  pool.tokens = std::int64_t{size / patch} * (size / patch);
  pool.sequences = count_or(map, "images", 1);
  const std::int32_t merge = count_or(map, "merge", 1);
  if (pool.tokens % merge != 0) map.at("merge").fail("does not divide an image's patches");
  pool.llm_tokens = pool.sequences * (pool.tokens / merge);
  pool.trainable = flag_or(map, "trainable", true);
  return pool;
}

PoolModel read_generator(const Field& map, const std::string& name, const ModelDescription& model) {
  map.expect_keys({"layers", "width", "heads", "kv_heads", "head_dim", "ffn", "experts", "top_k", "gated", "tokens",
                   "context", "streams", "modulated", "trainable"});
  PoolModel pool;
  pool.name = name;
  pool.kind = PoolKind::generator;
  pool.layer = read_layer(map, false);
  pool.tokens = count(map, "tokens");
  pool.llm_tokens = map.has("context") ? count(map, "context") : model.sequence;
  pool.streams = count_or(map, "streams", 1);
  if (pool.streams > 2) map.at("streams").fail("is 1 or 2");
  pool.modulated = flag_or(map, "modulated", true);
  pool.trainable = flag_or(map, "trainable", true);
  return pool;
}

void read_device(const Field& map, ModelDescription& model) {
  map.expect_keys({"flops", "efficiency", "memory_bytes", "bytes_per_second", "latency", "element_bytes",
                   "parameter_bytes", "optimizer_bytes", "optimizer_shards", "per_lane"});
  model.flops = amount(map, "flops", 1, 1e24);
  if (map.has("efficiency")) model.efficiency = amount(map, "efficiency", 1e-6, 1);
  model.memory_bytes = amount(map, "memory_bytes", 0, 1e15);
  if (map.has("bytes_per_second")) model.bytes_per_second = amount(map, "bytes_per_second", 0, 1e18);
  if (map.has("latency")) model.latency = amount(map, "latency", 0, 1e3);
  model.element_bytes = count_or(map, "element_bytes", 2);
  if (map.has("parameter_bytes")) model.parameter_bytes = amount(map, "parameter_bytes", 0, 1e3);
  if (map.has("optimizer_bytes")) model.optimizer_bytes = amount(map, "optimizer_bytes", 0, 1e3);
  model.optimizer_shards = count_or(map, "optimizer_shards", 1);
  model.lane_devices = count_or(map, "per_lane", 1);
}

}  // namespace

bool is_model(std::string_view text, std::string_view source) {
  const Node root = parse_document(text, source);
  const Node* format = root.find("format");
  return format && format->text == kFormat;
}

ModelDescription read_model(std::string_view text, std::string_view source) {
  const Node tree = parse_document(text, source);
  const Field root(tree, source);
  root.expect_keys({"format", "samples", "llm", "encoders", "generators", "device"});
  if (root.at("format").text() != kFormat) root.at("format").fail("is not " + std::string(kFormat));
  ModelDescription model;
  if (root.has("samples")) model.samples = count(root, "samples");
  read_llm(root.at("llm"), model);
  for (const char* key : {"encoders", "generators"}) {
    if (!root.has(key) || root.at(key).node().kind == Node::Kind::null) continue;
    const Field pools = root.at(key);
    pools.expect_map();
    for (const auto& entry : pools.node().entries) {
      const Field field = pools.at(entry.first);
      for (const PoolModel& other : model.pools) {
        if (other.name == entry.first) field.fail("two pools are named so");
      }
      if (entry.first == "llm" || entry.first.empty()) field.fail("is no name for a pool");
      model.pools.push_back(key[0] == 'e' ? read_encoder(field, entry.first)
                                          : read_generator(field, entry.first, model));
    }
  }
  read_device(root.at("device"), model);
  Shape smallest;
  try {
    model_workload(model, smallest);
  } catch (const Error& error) {
    throw Error(std::string(source), std::string("gives a workload that cannot be: ") + error.what(), "");
  }
  return model;
}

}  // namespace nestor::scheduler
