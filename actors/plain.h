#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <nestor/actors/codec.h>

namespace nestor::actors {

/// A value as a person writes it, in JSON: what a method's arguments and result become where no C++ is at hand, in an
/// interactive driver. `Plainable` are numbers, enums (by number), strings, paths, containers, optional, pairs and
/// tuples (arrays), maps by name (objects), types that list their fields (arrays of them) and tensors (nested arrays).
class Plain {
 public:
  using List = std::vector<Plain>;
  using Object = std::map<std::string, Plain>;
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Object>;

  Plain() = default;
  Plain(Value value) : value_(std::move(value)) {}  // NOLINT: as values are written
  /// Throws Error where it is no JSON.
  static Plain read(const std::string& json);
  std::string write() const;

  const Value& value() const { return value_; }
  /// Throw Error saying what it is instead.
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;
  const std::string& text() const;
  const List& list() const;
  /// With as many elements as that.
  const List& list(std::size_t size) const;
  const Object& object() const;
  bool null() const { return std::holds_alternative<std::monostate>(value_); }
  [[noreturn]] void unlike(const std::string& wanted) const;

 private:
  Value value_;
};

template <class T>
struct PlainForm;
template <class T>
concept Plainable = requires(const Plain& plain, const T& fixed, T& value) {
  PlainForm<T>::read(plain, value);
  { PlainForm<T>::write(fixed) } -> std::same_as<Plain>;
};

template <Plainable T>
T from_plain(const Plain& plain) {
  T value{};
  PlainForm<T>::read(plain, value);
  return value;
}
template <Plainable T>
Plain to_plain(const T& value) {
  return PlainForm<T>::write(value);
}

template <>
struct PlainForm<bool> {
  static void read(const Plain& plain, bool& value) { value = plain.boolean(); }
  static Plain write(bool value) { return Plain(value); }
};

template <class T>
requires(!std::is_const_v<T> && (std::is_integral_v<T> || std::is_enum_v<T>)) struct PlainForm<T> {
  static void read(const Plain& plain, T& value) {
    const std::int64_t read = plain.integer();
    value = static_cast<T>(read);
    if (static_cast<std::int64_t>(value) != read || (std::is_unsigned_v<T> && read < 0))
      plain.unlike("an integer of " + std::to_string(sizeof(T)) + " bytes");
  }
  static Plain write(T value) { return Plain(static_cast<std::int64_t>(value)); }
};

template <class T>
requires std::is_floating_point_v<T>
struct PlainForm<T> {
  static void read(const Plain& plain, T& value) { value = static_cast<T>(plain.number()); }
  static Plain write(T value) { return Plain(static_cast<double>(value)); }
};

template <>
struct PlainForm<std::string> {
  static void read(const Plain& plain, std::string& value) { value = plain.text(); }
  static Plain write(const std::string& value) { return Plain(value); }
};

template <>
struct PlainForm<std::filesystem::path> {
  static void read(const Plain& plain, std::filesystem::path& value) { value = plain.text(); }
  static Plain write(const std::filesystem::path& value) { return Plain(value.string()); }
};

/// Reads numbers as float64 where one has a fraction, else as int64; writes at most kShownElements.
template <>
struct PlainForm<at::Tensor> {
  static void read(const Plain& plain, at::Tensor& value);
  static Plain write(const at::Tensor& value);
  static constexpr std::int64_t kShownElements = 1000;
};

/// Also a map's elements, whose keys are const.
template <class A, class B>
requires Plainable<std::remove_const_t<A>> && Plainable<B>
struct PlainForm<std::pair<A, B>> {
  using Key = std::remove_const_t<A>;
  static void read(const Plain& plain, std::pair<A, B>& value) {
    const Plain::List& list = plain.list(2);
    PlainForm<Key>::read(list[0], const_cast<Key&>(value.first));
    PlainForm<B>::read(list[1], value.second);
  }
  static Plain write(const std::pair<A, B>& value) {
    return Plain(Plain::List{to_plain<Key>(value.first), to_plain(value.second)});
  }
};

template <Plainable... T>
struct PlainForm<std::tuple<T...>> {
  static void read(const Plain& plain, std::tuple<T...>& value) {
    const Plain::List& list = plain.list(sizeof...(T));
    std::size_t at = 0;
    std::apply([&](T&... parts) { (PlainForm<T>::read(list[at++], parts), ...); }, value);
  }
  static Plain write(const std::tuple<T...>& value) {
    return std::apply([](const T&... parts) { return Plain(Plain::List{to_plain(parts)...}); }, value);
  }
};

template <Plainable T>
struct PlainForm<std::optional<T>> {
  static void read(const Plain& plain, std::optional<T>& value) {
    value.reset();
    if (!plain.null()) PlainForm<T>::read(plain, value.emplace());
  }
  static Plain write(const std::optional<T>& value) { return value ? to_plain(*value) : Plain(); }
};

namespace detail {
template <class T>
concept NamedElements = Sequence<T> && requires {
  typename T::mapped_type;
  requires std::same_as<typename T::key_type, std::string>;
};
}  // namespace detail

template <detail::NamedElements T>
requires Plainable<typename T::mapped_type>
struct PlainForm<T> {
  static void read(const Plain& plain, T& value) {
    value.clear();
    for (const auto& [name, element] : plain.object())
      value.emplace(name, from_plain<typename T::mapped_type>(element));
  }
  static Plain write(const T& value) {
    Plain::Object object;
    for (const auto& [name, element] : value) object.emplace(name, to_plain(element));
    return Plain(std::move(object));
  }
};

template <detail::Sequence T>
requires(!detail::NamedElements<T> && !std::same_as<T, std::string> &&
         Plainable<std::remove_const_t<typename T::value_type>>) struct PlainForm<T> {
  using Element = typename T::value_type;
  static void read(const Plain& plain, T& value) {
    value.clear();
    for (const Plain& element : plain.list()) value.insert(value.end(), from_plain<Element>(element));
  }
  static Plain write(const T& value) {
    Plain::List list;
    for (const auto& element : value) list.push_back(to_plain<Element>(element));
    return Plain(std::move(list));
  }
};

namespace detail {

/// A field of another kind is known only when it is met.
[[noreturn]] void not_plain();

struct PlainWriter {
  Plain::List list{};
  template <class... F>
  void operator()(const F&... fields) {
    (list.push_back(plain_of(fields)), ...);
  }
  template <class F>
  static Plain plain_of(const F& field) {
    if constexpr (Plainable<F>) {
      return to_plain(field);
    } else {
      not_plain();
    }
  }
};
struct PlainReader {
  const Plain::List& list;
  std::size_t at = 0;
  template <class... F>
  void operator()(F&... fields) {
    (read(fields), ...);
  }
  template <class F>
  void read(F& field) {
    if constexpr (Plainable<F>) {
      if (at < list.size()) PlainForm<F>::read(list[at], field);
      ++at;
    } else {
      not_plain();
    }
  }
};

}  // namespace detail

template <class T>
requires detail::ListsFields<T>
struct PlainForm<T> {
  static void read(const Plain& plain, T& value) {
    detail::PlainReader reader{plain.list()};
    value.fields(reader);
    if (reader.at != reader.list.size()) plain.unlike("a list of " + std::to_string(reader.at) + " fields");
  }
  static Plain write(const T& value) {
    detail::PlainWriter writer;
    const_cast<T&>(value).fields(writer);  // only read
    return Plain(std::move(writer.list));
  }
};

}  // namespace nestor::actors
