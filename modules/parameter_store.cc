#include <nestor/modules/part.h>

namespace nestor::modules {

Tensor ParameterStore::share(const std::string& name, Tensor tensor) {
  auto [found, added] = index_.try_emplace(name, entries_.size());
  if (added) entries_.emplace_back(name, std::move(tensor));
  return entries_[found->second].second;
}

Tensor ParameterStore::find(std::string_view name) const {
  auto found = index_.find(name);
  return found == index_.end() ? Tensor() : entries_[found->second].second;
}

}  // namespace nestor::modules
