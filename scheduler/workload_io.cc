#include <algorithm>
#include <charconv>

#include <nestor/scheduler/workload_io.h>

namespace nestor::scheduler {
namespace {

constexpr std::string_view kFormat = "nestor.workload/1";

template <class T, class Read>
void read_if_there(const Field& map, std::string_view key, T& out, Read&& read) {
  if (map.has(key)) out = read(map.at(key));
}
void read_bytes(const Field& map, std::string_view key, std::int64_t& out) {
  read_if_there(map, key, out, [](const Field& f) { return f.integer(); });
}
void read_flag(const Field& map, std::string_view key, bool& out) {
  read_if_there(map, key, out, [](const Field& f) { return f.boolean(); });
}

void expect_length(const Field& list, std::size_t want, const char* of) {
  if (list.size() != want) {
    list.fail("has " + std::to_string(list.size()) + " entries, needs " + std::to_string(want), of);
  }
}

/// Seconds: one number for all, divided by `share`, or a list of `size`.
std::vector<double> read_costs(const Field& field, std::size_t size, double share, const char* of) {
  if (!field.is_list()) return std::vector<double>(size, field.number() / share);
  expect_length(field, size, of);
  std::vector<double> costs(size);
  for (std::size_t i = 0; i < size; ++i) costs[i] = field.at(i).number();
  return costs;
}

std::vector<LaneId> read_lanes(const Field& field) {
  field.expect_list();
  std::vector<LaneId> lanes;
  lanes.reserve(field.size());
  for (std::size_t i = 0; i < field.size(); ++i) lanes.emplace_back(field.at(i).small_integer());
  return lanes;
}

void read_llm(const Field& field, Workload& w) {
  field.expect_keys(
      {"forward", "backward", "scale", "lanes", "trainable", "message_bytes", "stash_bytes", "recompute"});
  const auto stages = static_cast<std::size_t>(w.model_stages());
  w.llm.forward = read_costs(field.at("forward"), stages, w.chunks, "one per model stage");
  w.llm.backward = read_costs(field.at("backward"), stages, w.chunks, "one per model stage");
  if (field.has("scale")) {
    field.at("scale").expect_list();
    w.llm.scale = read_costs(field.at("scale"), w.microbatches, 1, "one per microbatch");
  }
  if (field.has("lanes")) {
    w.llm.lanes = read_lanes(field.at("lanes"));
    expect_length(field.at("lanes"), stages, "one per model stage");
  }
  read_flag(field, "trainable", w.llm.trainable);
  read_bytes(field, "message_bytes", w.llm.message_bytes);
  read_bytes(field, "stash_bytes", w.llm.stash_bytes);
  read_flag(field, "recompute", w.llm.recompute);
}

void read_absent(const Field& field, PoolWorkload& pool) {
  field.expect_list();
  for (std::size_t i = 0; i < field.size(); ++i) {
    const Field entry = field.at(i);
    const std::int64_t m = entry.integer();
    if (m < 0 || m >= static_cast<std::int64_t>(pool.absent.size())) entry.fail("is no microbatch");
    if (pool.absent[m]) entry.fail("is listed twice");
    pool.absent[m] = 1;
  }
}

/// Encoders are read before generators, so all names that an input may have are known.
void read_inputs(const Field& field, const Workload& w, PoolWorkload& pool) {
  field.expect_list();
  pool.inputs.clear();
  for (std::size_t i = 0; i < field.size(); ++i) {
    const Field entry = field.at(i);
    const std::string& name = entry.text();
    ModuleId input;
    if (name == "llm") input = kLlm;
    for (std::size_t e = 0; e < w.pools.size(); ++e) {
      if (w.pools[e].kind == PoolKind::encoder && w.pools[e].name == name) input = ModuleId{std::int64_t(e) + 1};
    }
    if (!input.valid()) entry.fail("is neither llm nor an encoder");
    pool.inputs.push_back(input);
  }
}

void read_pool(const Field& field, Workload& w, const std::string& name, PoolKind kind) {
  if (kind == PoolKind::encoder) {
    field.expect_keys({"forward", "backward", "lanes", "owner", "absent", "trainable", "message_bytes", "stash_bytes",
                       "recompute", "in_flight_cap"});
  } else {
    field.expect_keys({"forward", "backward", "inputs", "lanes", "owner", "absent", "trainable", "message_bytes",
                       "stash_bytes", "recompute", "in_flight_cap"});
  }
  if (name == "llm") field.fail("a pool cannot be named llm");
  for (const PoolWorkload& other : w.pools) {
    if (other.name == name) field.fail("two pools are named so");
  }
  PoolWorkload pool = make_pool(w, name, kind, 0, 0);
  const auto microbatches = static_cast<std::size_t>(w.microbatches);
  pool.forward = read_costs(field.at("forward"), microbatches, 1, "one per microbatch");
  pool.backward = read_costs(field.at("backward"), microbatches, 1, "one per microbatch");
  if (field.has("lanes")) {
    pool.lanes = read_lanes(field.at("lanes"));
    if (pool.lanes.empty()) field.at("lanes").fail("is empty", "a pool needs a member");
  }
  if (field.has("owner")) {
    const Field owner = field.at("owner");
    pool.owner_given = true;
    owner.expect_list();
    expect_length(owner, microbatches, "one per microbatch");
    for (std::size_t m = 0; m < microbatches; ++m) pool.owner[m] = owner.at(m).small_integer();
  } else {
    for (std::size_t m = 0; m < microbatches; ++m) {
      pool.owner[m] = static_cast<std::int32_t>(m % pool.lanes.size());
    }
  }
  if (field.has("absent")) read_absent(field.at("absent"), pool);
  if (field.has("inputs")) read_inputs(field.at("inputs"), w, pool);
  read_flag(field, "trainable", pool.trainable);
  read_bytes(field, "message_bytes", pool.message_bytes);
  read_bytes(field, "stash_bytes", pool.stash_bytes);
  read_flag(field, "recompute", pool.recompute);
  if (field.has("in_flight_cap")) pool.in_flight_cap = field.at("in_flight_cap").small_integer();
  w.pools.push_back(std::move(pool));
}

/// One number for every lane, or a list.
void read_resident(const Field& field, Workload& w) {
  if (!field.is_list()) {
    w.resident_bytes.assign(static_cast<std::size_t>(w.lane_count()), field.integer());
    return;
  }
  for (std::size_t lane = 0; lane < field.size(); ++lane) w.resident_bytes.push_back(field.at(lane).integer());
}

/// `path` is a field as `validate` names it; finds its line, or that of the nearest field around it.
Field locate(Field field, std::string_view path, const std::vector<std::string>& names) {
  while (!path.empty()) {
    if (path.starts_with('.')) path.remove_prefix(1);
    std::string_view key = path.substr(0, path.find_first_of(".["));
    for (const std::string& name : names) {  // a pool's name may hold dots and brackets
      if (path.starts_with(name) && field.has(name) && name.size() >= key.size()) key = path.substr(0, name.size());
    }
    std::size_t index = 0;
    const auto number = std::from_chars(path.data() + path.starts_with('['), path.data() + path.size(), index);
    if (!key.empty() && field.has(key)) {
      field = field.at(key);
      path.remove_prefix(key.size());
    } else if (path.starts_with('[') && number.ec == std::errc{} && index < field.size()) {
      field = field.at(index);
      path.remove_prefix(std::min<std::size_t>(number.ptr - path.data() + 1, path.size()));
    } else {
      break;
    }
  }
  return field;
}

}  // namespace

Workload read_workload(const Field& root) {
  root.expect_keys({"format", "pipeline", "llm", "encoders", "generators", "transfer", "memory"});
  if (root.at("format").text() != kFormat) root.at("format").fail("is not " + std::string(kFormat));
  const Field pipeline = root.at("pipeline");
  pipeline.expect_keys({"stages", "chunks", "microbatches"});
  Workload sizes;
  sizes.stages = pipeline.at("stages").small_integer();
  if (pipeline.has("chunks")) sizes.chunks = pipeline.at("chunks").small_integer();
  sizes.microbatches = pipeline.at("microbatches").small_integer();
  std::vector<std::string> names;
  for (const char* kind : {"encoders", "generators"}) {
    if (!root.has(kind) || root.at(kind).node().kind == Node::Kind::null) continue;
    root.at(kind).expect_map();
    for (const auto& entry : root.at(kind).node().entries) names.push_back(entry.first);
  }
  sizes.pools.resize(names.size());

  auto checked = [&](auto&& check) {
    try {
      check();
    } catch (const Error& error) {  // ":field: what"
      const std::string what = std::string(error.what()).substr(error.where().size() + 2);
      const std::string field = error.where().substr(1);
      const Field place = locate(root, field, names);
      const std::string full = root.path().empty() ? field : root.path() + "." + field;
      place.fail_at(full, what);
    }
  };
  checked([&] { validate_sizes(sizes, ""); });
  Workload w = make_workload(sizes.stages, sizes.chunks, sizes.microbatches, 0, 0);
  read_llm(root.at("llm"), w);
  for (const PoolKind kind : {PoolKind::encoder, PoolKind::generator}) {
    const char* key = kind == PoolKind::encoder ? "encoders" : "generators";
    if (!root.has(key)) continue;
    const Field pools = root.at(key);
    for (const auto& entry : pools.node().entries) read_pool(pools.at(entry.first), w, entry.first, kind);
  }
  if (root.has("transfer")) {
    const Field transfer = root.at("transfer");
    transfer.expect_keys({"latency", "bytes_per_second"});
    auto number = [](const Field& f) { return f.number(); };
    read_if_there(transfer, "latency", w.transfer_latency, number);
    read_if_there(transfer, "bytes_per_second", w.transfer_bytes_per_second, number);
  }
  if (root.has("memory")) {
    const Field memory = root.at("memory");
    memory.expect_keys({"bytes_per_lane", "resident_bytes"});
    read_bytes(memory, "bytes_per_lane", w.memory_bytes_per_lane);
    if (memory.has("resident_bytes")) read_resident(memory.at("resident_bytes"), w);
  }
  checked([&] { validate(w, ""); });
  return w;
}

Workload read_workload(std::string_view text, std::string_view source) {
  const Node root = parse_document(text, source);
  return read_workload(Field(root, source));
}

namespace {

template <class Range, class Append>
void append_list(std::string& out, const Range& range, Append&& append) {
  out += '[';
  bool first = true;
  for (const auto& element : range) {
    if (!first) out += ", ";
    first = false;
    append(element);
  }
  out += ']';
}

void append_pool(std::string& out, const Workload& w, const PoolWorkload& pool) {
  auto numbers = [&](const char* key, const std::vector<double>& values) {
    out += std::string("\"") + key + "\": ";
    append_list(out, values, [&](double v) { append_number(out, v); });
    out += ", ";
  };
  auto integer = [&](std::int64_t v) { append_number(out, v); };
  out += json_text(pool.name) + ": {";
  numbers("forward", pool.forward);
  numbers("backward", pool.backward);
  if (pool.kind == PoolKind::generator) {
    out += "\"inputs\": ";
    append_list(out, pool.inputs, [&](ModuleId input) { out += json_text(w.name(input)); });
    out += ", ";
  }
  out += "\"lanes\": ";
  append_list(out, pool.lanes, [&](LaneId lane) { integer(lane.value); });
  out += ", \"owner\": ";
  append_list(out, pool.owner, integer);
  std::vector<std::int64_t> absent;
  for (std::size_t m = 0; m < pool.absent.size(); ++m) {
    if (pool.absent[m]) absent.push_back(static_cast<std::int64_t>(m));
  }
  out += ", \"absent\": ";
  append_list(out, absent, integer);
  out += std::string(", \"trainable\": ") + (pool.trainable ? "true" : "false") + ", \"message_bytes\": ";
  integer(pool.message_bytes);
  out += ", \"stash_bytes\": ";
  integer(pool.stash_bytes);
  out += std::string(", \"recompute\": ") + (pool.recompute ? "true" : "false");
  if (pool.in_flight_cap) {
    out += ", \"in_flight_cap\": ";
    integer(*pool.in_flight_cap);
  }
  out += '}';
}

}  // namespace

std::string write_workload(const Workload& w) {
  std::string out = "{\"format\": \"nestor.workload/1\", \"pipeline\": {\"stages\": ";
  auto integer = [&](std::int64_t v) { append_number(out, v); };
  auto number = [&](double v) { append_number(out, v); };
  integer(w.stages);
  out += ", \"chunks\": ";
  integer(w.chunks);
  out += ", \"microbatches\": ";
  integer(w.microbatches);
  out += "}, \"llm\": {\"forward\": ";
  append_list(out, w.llm.forward, number);
  out += ", \"backward\": ";
  append_list(out, w.llm.backward, number);
  out += ", \"scale\": ";
  append_list(out, w.llm.scale, number);
  out += ", \"lanes\": ";
  append_list(out, w.llm.lanes, [&](LaneId lane) { integer(lane.value); });
  out += std::string(", \"trainable\": ") + (w.llm.trainable ? "true" : "false") + ", \"message_bytes\": ";
  integer(w.llm.message_bytes);
  out += ", \"stash_bytes\": ";
  integer(w.llm.stash_bytes);
  out += std::string(", \"recompute\": ") + (w.llm.recompute ? "true" : "false") + "}";
  for (const PoolKind kind : {PoolKind::encoder, PoolKind::generator}) {
    out += kind == PoolKind::encoder ? ", \"encoders\": {" : ", \"generators\": {";
    bool first = true;
    for (const PoolWorkload& pool : w.pools) {
      if (pool.kind != kind) continue;
      if (!first) out += ", ";
      first = false;
      append_pool(out, w, pool);
    }
    out += '}';
  }
  out += ", \"transfer\": {\"latency\": ";
  number(w.transfer_latency);
  out += ", \"bytes_per_second\": ";
  number(w.transfer_bytes_per_second);
  out += "}, \"memory\": {\"bytes_per_lane\": ";
  integer(w.memory_bytes_per_lane);
  if (!w.resident_bytes.empty()) {
    out += ", \"resident_bytes\": ";
    append_list(out, w.resident_bytes, integer);
  }
  out += "}}";
  return out;
}

}  // namespace nestor::scheduler
