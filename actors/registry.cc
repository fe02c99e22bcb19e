#include <algorithm>
#include <cctype>

#include <nestor/actors/error.h>
#include <nestor/actors/registry.h>

namespace nestor::actors::detail {

namespace {

void check_name(const std::string& name) {
  const auto legal = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '/';
  };
  if (name.empty() || name.size() > 128 || !std::all_of(name.begin(), name.end(), legal)) {
    throw Error("'" + name + "'", "is no name for an actor", "1 to 128 letters, digits, or any of . _ - /");
  }
}

template <class Map>
std::string join_names(const Map& cells) {
  std::string names;
  for (const auto& [name, cell] : cells) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "no actor lives" : "there are: " + names;
}

}  // namespace

void Registry::add(const std::shared_ptr<Cell>& cell) {
  check_name(cell->name());
  std::lock_guard lock(mutex_);
  if (closed_) throw Error(cell->name(), "cannot be spawned", "the runtime is shutting down");
  if (!living_.emplace(cell->name(), cell).second) {
    throw Error(cell->name(), "an actor of this name lives already", "names are unique; find it, or choose another");
  }
  objects_.emplace(cell.get(), cell);
}

std::shared_ptr<Cell> Registry::find(std::string_view name) const {
  std::lock_guard lock(mutex_);
  if (auto found = living_.find(name); found != living_.end()) return found->second;
  const auto died =
      std::find_if(dead_.rbegin(), dead_.rend(), [&](const ActorInfo& info) { return info.name == name; });
  const std::string what = died == dead_.rend() ? "no such actor" : "it died: " + died->death_cause;
  throw Error(std::string(name), what, join_names(living_));
}

std::vector<ActorInfo> Registry::list() const {
  std::lock_guard lock(mutex_);
  std::vector<ActorInfo> infos;
  for (const auto& [name, cell] : living_) {
    const char* state = cell->state() == CellState::pending ? "PENDING" : "ALIVE";
    infos.push_back({name, cell->type_name(), state, cell->queued(), ""});
  }
  infos.insert(infos.end(), dead_.begin(), dead_.end());
  return infos;
}

void Registry::died(const Cell& cell, const std::string& cause) {
  std::lock_guard lock(mutex_);
  if (auto found = living_.find(cell.name()); found != living_.end() && found->second.get() == &cell) {
    living_.erase(found);
  }
  dead_.push_back({cell.name(), cell.type_name(), "DEAD", 0, cause});
  if (dead_.size() > kObituaries) dead_.pop_front();
}

void Registry::ended(const Cell& cell) {
  std::lock_guard lock(mutex_);
  objects_.erase(&cell);
  if (objects_.empty()) all_ended_.notify_all();
}

std::vector<std::shared_ptr<Cell>> Registry::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  std::vector<std::shared_ptr<Cell>> cells;
  for (const auto& [key, cell] : objects_) cells.push_back(cell);
  return cells;
}

std::vector<std::string> Registry::wait_ended(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  all_ended_.wait_until(lock, deadline, [this] { return objects_.empty(); });
  std::vector<std::string> survivors;
  for (const auto& [key, cell] : objects_) survivors.push_back(cell->name());
  std::sort(survivors.begin(), survivors.end());
  return survivors;
}

}  // namespace nestor::actors::detail
