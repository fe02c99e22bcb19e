#pragma once

#include <any>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nestor/actors/detail/incoming.h>

namespace nestor::actors {

/// The methods of an actor type by name. A type may list them, and its type's name:
///
///     static void describe(nestor::MethodTable<Counter>& table) {
///       table.type("counter").method("add", &Counter::add).method("value", &Counter::value);
///     }
///
/// Errors then name the method. Calls from other processes can only reach what is listed here.
template <class T>
class MethodTable {
 public:
  MethodTable& type(std::string name) {
    type_ = std::move(name);
    return *this;
  }
  template <class Method>
  requires std::is_member_function_pointer_v<Method> MethodTable& method(std::string name, Method method) {
    entries_.push_back({std::move(name), method, detail::make_incoming<T>(method), detail::make_transcoder(method)});
    return *this;
  }
  const std::string& type_name() const { return type_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    return names;
  }
  /// How a method is called from another process; empty for one that is not listed, or whose types cannot be sent.
  detail::MakeIncoming incoming(const std::string& name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) return entry.incoming;
    return {};
  }
  /// How it is called by text; empty functions where it cannot be.
  detail::Transcoder transcoder(const std::string& name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) return entry.transcoder;
    return {};
  }
  /// Empty for a method that is not listed.
  template <class Method>
  std::string name_of(Method method) const {
    for (const Entry& entry : entries_) {
      const Method* listed = std::any_cast<Method>(&entry.method);
      if (listed != nullptr && *listed == method) return entry.name;
    }
    return {};
  }

 private:
  struct Entry {
    std::string name;
    std::any method;
    detail::MakeIncoming incoming;
    detail::Transcoder transcoder;
  };
  std::string type_;
  std::vector<Entry> entries_;
};

namespace detail {

std::string demangled(const char* name);

template <class T>
concept Described = requires(MethodTable<T>& table) {
  T::describe(table);
};

template <class T>
const MethodTable<T>& method_table() {
  static const MethodTable<T> table = [] {
    MethodTable<T> described;
    if constexpr (Described<T>) T::describe(described);
    return described;
  }();
  return table;
}

template <class T>
std::string type_name() {
  std::string name = method_table<T>().type_name();
  return name.empty() ? demangled(typeid(T).name()) : name;
}

template <class T>
ActorType actor_type() {
  return {type_name<T>(), typeid(T), [](const std::string& method) { return method_table<T>().incoming(method); },
          [](const std::string& method) { return method_table<T>().transcoder(method); },
          [] { return method_table<T>().names(); }};
}

template <class T, class Function>
std::string method_name(const Function& function) {
  if constexpr (Described<T> && std::is_member_function_pointer_v<Function>) {
    return method_table<T>().name_of(function);
  } else {
    return {};
  }
}

}  // namespace detail
}  // namespace nestor::actors

namespace nestor {
using actors::MethodTable;
}
