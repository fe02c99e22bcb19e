#include <algorithm>
#include <cmath>
#include <set>

#include <nestor/modules/model.h>

namespace nestor::modules {
namespace {

const char* kind_name(Model::Kind kind) {
  switch (kind) {
    case Model::Kind::input:
      return "input";
    case Model::Kind::encoder:
      return "encoder";
    case Model::Kind::llm:
      return "llm";
    case Model::Kind::head:
      return "head";
    case Model::Kind::generator:
      return "generator";
  }
  return "?";
}

std::string where_of(const Model::Node& node) {
  return std::string("model.") + kind_name(node.kind) + "." + node.name;
}

bool good_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

Value Model::add(Node node) {
  for (Value value : node.inputs)
    if (value.node < 0 || value.node >= static_cast<std::int32_t>(nodes_.size()))
      throw Error(where_of(node), "an input is not a value of this model", "declare it on the same Model first");
  nodes_.push_back(std::move(node));
  return {static_cast<std::int32_t>(nodes_.size()) - 1};
}

Value Model::input(std::string name) {
  return add({Kind::input, std::move(name), {}, {}, {}, 1.0});
}

Value Model::llm(std::string name, std::vector<Value> inputs, std::vector<ModuleFactory> layers) {
  return add({Kind::llm, std::move(name), std::move(inputs), std::move(layers), {}, 1.0});
}

void Model::loss(std::string name, std::vector<Value> inputs, Loss loss, double weight) {
  for (Value value : inputs)
    if (value.node < 0 || value.node >= static_cast<std::int32_t>(nodes_.size()))
      throw Error("model.loss." + name, "an input is not a value of this model", "declare it on the same Model first");
  losses_.push_back({std::move(name), std::move(inputs), std::move(loss), weight});
}

void Model::layer_loss(std::string name, CountFunction count, double weight) {
  losses_.push_back({std::move(name), {}, {{}, std::move(count)}, weight});
}

void Model::tie(std::string parameter, std::string with) {
  ties_.emplace_back(std::move(parameter), std::move(with));
}

void Model::freeze(std::string pattern) {
  frozen_.push_back(std::move(pattern));
}

bool Model::frozen(std::string_view parameter) const {
  return std::any_of(frozen_.begin(), frozen_.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, parameter); });
}

std::string Model::canonical(std::string_view parameter) const {
  std::string name(parameter);
  for (std::size_t hops = 0; hops <= ties_.size(); ++hops) {
    auto tie = std::find_if(ties_.begin(), ties_.end(), [&](const auto& t) { return t.first == name; });
    if (tie == ties_.end()) return name;
    name = tie->second;
  }
  throw Error("model.tie", "the ties of '" + std::string(parameter) + "' go in a circle", "tie each to the embedding");
}

const Model::Node* Model::find(std::string_view node) const {
  auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& n) { return n.name == node; });
  return found == nodes_.end() ? nullptr : &*found;
}

const Model::Node& Model::llm_node() const {
  auto found = std::find_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.kind == Kind::llm; });
  if (found == nodes_.end()) throw Error("model", "there is no LLM", "declare one with Model::llm");
  return *found;
}

bool Model::present(const Node& node, const Microbatch& microbatch) const {
  if (node.kind == Kind::llm || node.kind == Kind::head) return true;
  if (node.kind == Kind::input) return microbatch.has(node.name);
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value value) {
    const Node& input = nodes_[static_cast<std::size_t>(value.node)];
    return input.kind != Kind::input || microbatch.has(input.name);
  });
}

void Model::validate() const {
  std::set<std::string> names;
  std::vector<bool> read(nodes_.size(), false);
  int llms = 0;
  for (const Node& node : nodes_) {
    const std::string where = where_of(node);
    if (!good_name(node.name)) throw Error(where, "not a name", "letters, digits, _ and -");
    if (!names.insert(node.name).second) throw Error(where, "the name is taken", "every node has a name of its own");
    if (node.name == "llm" && node.kind != Kind::llm) throw Error(where, "the name is the LLM's", "choose another");
    if (node.kind == Kind::llm && ++llms > 1) throw Error(where, "there is an LLM already", "a model has one");
    if (node.kind != Kind::input && node.inputs.empty()) throw Error(where, "it reads nothing", "give it inputs");
    if (node.kind != Kind::input && node.factories.empty()) throw Error(where, "it has no layers", "add one");
    for (const auto& factory : node.factories)
      if (!factory) throw Error(where, "a layer has no factory", "pass a callable");
    if (node.kind == Kind::encoder && (node.outputs < 1 || node.outputs > 1024))
      throw Error(where, std::to_string(node.outputs) + " outputs", "1 to 1024");
    bool reads_llm = false, reads_module = false;
    for (Value value : node.inputs) {
      const auto index = static_cast<std::size_t>(value.node);
      const Node& input = nodes_[index];
      read[index] = true;
      reads_llm |= input.kind == Kind::llm;
      reads_module |= input.kind != Kind::input;
      bool allowed = input.kind == Kind::input;
      if (node.kind == Kind::llm) allowed |= input.kind == Kind::encoder;
      if (node.kind == Kind::head) allowed |= input.kind == Kind::llm;
      if (node.kind == Kind::generator) allowed |= input.kind == Kind::llm || input.kind == Kind::encoder;
      if (!allowed)
        throw Error(where, std::string("it may not read ") + kind_name(input.kind) + " '" + input.name + "'",
                    node.kind == Kind::encoder ? "encoders read inputs; join the two into one encoder"
                                               : "see Model for what each kind reads");
    }
    if (node.kind == Kind::head && !reads_llm) throw Error(where, "it does not read the LLM", "heads do");
    if (node.kind == Kind::generator && !reads_module)
      throw Error(where, "it reads neither the LLM nor an encoder", "nothing would be trained with it");
    if (node.kind == Kind::generator && !node.count)
      throw Error(where, "its loss has no count", "pass one, such as count_of(\"target\")");
    if (!std::isfinite(node.weight)) throw Error(where, "its weight is not a number", "");
  }
  if (llms == 0) throw Error("model", "there is no LLM", "declare one with Model::llm");
  std::set<std::string> loss_names;
  for (const Node& node : nodes_)
    if (node.kind == Kind::generator) loss_names.insert(node.name);
  for (const LossNode& loss : losses_) {
    const std::string where = "model.loss." + loss.name;
    if (!good_name(loss.name)) throw Error(where, "not a name", "letters, digits, _ and -");
    if (!loss_names.insert(loss.name).second)
      throw Error(where, "the name is taken", "losses and generators have names of their own");
    if (!loss.loss.count) throw Error(where, "it has no count", "pass one, such as count_of(\"labels\")");
    if (!std::isfinite(loss.weight)) throw Error(where, "its weight is not a number", "");
    if (!loss.loss.sum) {
      if (!loss.inputs.empty()) throw Error(where, "it has no function", "pass one that returns a sum");
      continue;  // a layer loss
    }
    bool reads_head = false;
    for (Value value : loss.inputs) {
      const auto index = static_cast<std::size_t>(value.node);
      read[index] = true;
      reads_head |= nodes_[index].kind == Kind::head;
      if (nodes_[index].kind != Kind::head && nodes_[index].kind != Kind::input)
        throw Error(where, "it reads '" + nodes_[index].name + "'", "losses read heads and inputs");
    }
    if (!reads_head) throw Error(where, "it reads no head", "declare one with Model::head");
  }
  if (loss_names.empty()) throw Error("model", "there is no loss", "declare one with Model::loss or a generator");
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (!read[i] && (nodes_[i].kind == Kind::encoder || nodes_[i].kind == Kind::head))
      throw Error(where_of(nodes_[i]), "nothing reads it", "pass it on or leave it out");
  std::set<std::string> tied;
  for (const auto& [parameter, with] : ties_) {
    if (!tied.insert(parameter).second) throw Error("model.tie", "'" + parameter + "' is tied twice", "");
    canonical(parameter);  // throws on a circle
  }
}

bool glob_match(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[t]) && pattern[p] != '*') {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string layer_name(const Model::Node& node, std::size_t layer) {
  return node.kind == Model::Kind::llm ? node.name + ".layers." + std::to_string(layer) : node.name;
}

}  // namespace nestor::modules
