#pragma once

#include <any>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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
    entries_.push_back({std::move(name), method});
    return *this;
  }
  const std::string& type_name() const { return type_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    return names;
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
MethodTable<T> method_table() {
  MethodTable<T> table;
  if constexpr (Described<T>) T::describe(table);
  return table;
}

template <class T>
std::string type_name() {
  std::string name = method_table<T>().type_name();
  return name.empty() ? demangled(typeid(T).name()) : name;
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
