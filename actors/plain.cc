#include <cmath>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <nestor/actors/plain.h>

namespace nestor::actors {
namespace {

using Json = nlohmann::json;
constexpr int kDeepest = 100;

Plain plain_of(const Json& json, int depth) {
  if (depth > kDeepest) throw Error("argument", "is nested too deeply");
  if (json.is_null()) return {};
  if (json.is_boolean()) return Plain(json.get<bool>());
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{1} << 62) return Plain(json.get<double>());
  if (json.is_number_integer()) return Plain(json.get<std::int64_t>());
  if (json.is_number()) return Plain(json.get<double>());
  if (json.is_string()) return Plain(json.get<std::string>());
  if (json.is_array()) {
    Plain::List list;
    for (const Json& element : json) list.push_back(plain_of(element, depth + 1));
    return Plain(std::move(list));
  }
  Plain::Object object;
  for (const auto& [name, element] : json.items()) object.emplace(name, plain_of(element, depth + 1));
  return Plain(std::move(object));
}

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool value) const { return value; }
  Json operator()(std::int64_t value) const { return value; }
  Json operator()(double value) const {  // JSON has no word for the others
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(const Plain::List& value) const {
    Json json = Json::array();
    for (const Plain& element : value) json.push_back(std::visit(*this, element.value()));
    return json;
  }
  Json operator()(const Plain::Object& value) const {
    Json json = Json::object();
    for (const auto& [name, element] : value) json[name] = std::visit(*this, element.value());
    return json;
  }
};

constexpr const char* kKinds[] = {"null", "true or false", "an integer", "a number", "a string", "a list", "an object"};

/// The elements of nested lists in order, and the lists' lengths, which must be alike at each depth.
void flatten(const Plain& plain, std::size_t depth, std::vector<std::int64_t>& shape, std::vector<double>& elements,
             bool& whole) {
  if (const auto* list = std::get_if<Plain::List>(&plain.value())) {
    const auto length = static_cast<std::int64_t>(list->size());
    if (depth == shape.size() && elements.empty()) shape.push_back(length);
    if (depth >= shape.size() || shape[depth] != length) plain.unlike("a list as long as its neighbours");
    for (const Plain& element : *list) flatten(element, depth + 1, shape, elements, whole);
    return;
  }
  if (depth != shape.size()) plain.unlike("a list, as its neighbours are");
  whole = whole && std::holds_alternative<std::int64_t>(plain.value());
  elements.push_back(plain.number());
}

Plain nested(const torch::Tensor& tensor) {
  if (tensor.dim() == 0) {
    if (tensor.scalar_type() == torch::kBool) return Plain(tensor.item<bool>());
    if (tensor.is_floating_point()) return Plain(tensor.item<double>());
    return Plain(tensor.item<std::int64_t>());
  }
  Plain::List list;
  for (std::int64_t i = 0; i < tensor.size(0); ++i) list.push_back(nested(tensor[i]));
  return Plain(std::move(list));
}

}  // namespace

Plain Plain::read(const std::string& json) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded()) throw Error("argument", "is no JSON", "e.g. 3, 0.5, \"text\", [1, 2]");
  return plain_of(parsed, 0);
}

std::string Plain::write() const {
  return std::visit(ToJson(), value_).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Plain::unlike(const std::string& wanted) const {
  throw Error("argument", std::string("is ") + kKinds[value_.index()] + ", not " + wanted);
}

bool Plain::boolean() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  unlike("true or false");
}

std::int64_t Plain::integer() const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  unlike("an integer");
}

double Plain::number() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  unlike("a number");
}

const std::string& Plain::text() const {
  if (const auto* value = std::get_if<std::string>(&value_)) return *value;
  unlike("a string");
}

const Plain::List& Plain::list() const {
  if (const List* value = std::get_if<List>(&value_)) return *value;
  unlike("a list");
}

const Plain::List& Plain::list(std::size_t size) const {
  const List& value = list();
  if (value.size() != size)
    throw Error("argument", "is a list of " + std::to_string(value.size()) + ", not of " + std::to_string(size));
  return value;
}

const Plain::Object& Plain::object() const {
  if (const Object* value = std::get_if<Object>(&value_)) return *value;
  unlike("an object");
}

void PlainForm<at::Tensor>::read(const Plain& plain, at::Tensor& value) {
  std::vector<std::int64_t> shape;
  std::vector<double> elements;
  bool whole = true;
  flatten(plain, 0, shape, elements, whole);
  value = torch::tensor(elements, torch::kFloat64).reshape(shape);
  if (whole && !elements.empty()) value = value.to(torch::kInt64);
}

Plain PlainForm<at::Tensor>::write(const at::Tensor& value) {
  if (!value.defined()) return {};
  if (value.numel() <= kShownElements) return nested(value.detach().cpu());
  std::string text = "tensor of";
  for (const std::int64_t size : value.sizes()) text += " " + std::to_string(size);
  return Plain(text + ", too many to show");
}

void detail::not_plain() {
  throw Error("call", "the method takes or gives what cannot be written as text");
}

}  // namespace nestor::actors
