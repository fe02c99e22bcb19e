#pragma once

#include <chrono>
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include <nestor/actors/actor.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/registry.h>

namespace nestor::actors {

namespace remote {
class Node;
}

struct RuntimeOptions {
  /// How long the destructor waits for methods under way before it gives their actors up (and says so on stderr).
  std::chrono::milliseconds shutdown_limit{10'000};
};

struct ActorOptions {
  std::string name;                              ///< letters, digits and . _ - / ; unique among the living
  std::size_t mailbox_limit = 100'000;           ///< calls queued; a caller that meets a full mailbox waits for room
  std::chrono::milliseconds send_limit{30'000};  ///< ... at most this long, then its call throws CallTimeout
  std::size_t max_concurrency = 1;  ///< threads that run its methods; with more than 1 its members need locks
};

/// The actors of one process: spawns them, finds them by name, ends them. Several in one process are independent.
/// Every actor has a thread of its own (or several), so that a method may compute or wait as long as it likes. Any
/// thread.
class Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  /// Shuts down within options.shutdown_limit.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Constructs T(args...) in a thread of its own and waits for that. Arguments are copied or moved; pass references
  /// by std::ref. Throws Error for a name that is taken, CallFailed with what the constructor threw.
  template <std::derived_from<Actor> T, class... Args>
  Handle<T> spawn(ActorOptions options, Args&&... args) {
    auto stored = std::make_shared<std::tuple<std::decay_t<Args>...>>(std::forward<Args>(args)...);
    return Handle<T>(launch(options, detail::actor_type<T>(), [stored]() -> std::unique_ptr<Actor> {
      return std::apply([](auto&... values) { return std::make_unique<T>(std::move(values)...); }, *stored);
    }));
  }
  template <std::derived_from<Actor> T, class... Args>
  Handle<T> spawn(std::string name, Args&&... args) {
    ActorOptions options;
    options.name = std::move(name);
    return spawn<T>(std::move(options), std::forward<Args>(args)...);
  }

  /// Throws Error naming those that exist, or the type where the actor is not a T.
  template <std::derived_from<Actor> T>
  Handle<T> find(std::string_view name) const {
    return Handle<T>(find_cell(name, detail::actor_type<T>()));
  }
  /// The living, then the last that died.
  std::vector<ActorInfo> list() const;
  /// Throws Error naming those that exist.
  void kill(std::string_view name, const std::string& cause = "it was killed");

  /// Kills every actor, waits for methods under way and runs on_stop. Throws Error naming the actors that have not
  /// ended at the limit; may be called again. Not from an actor of this runtime.
  void shutdown(std::chrono::nanoseconds limit);

  /// Its place in a cluster; null where it is in none.
  remote::Node* node() const;

  /// For actors/remote: the actors as other processes see them, without their types.
  const std::shared_ptr<detail::Registry>& registry() const;

 private:
  std::shared_ptr<detail::Cell> launch(const ActorOptions& options, detail::ActorType type,
                                       detail::Cell::Factory factory);
  std::shared_ptr<detail::Cell> find_cell(std::string_view name, const detail::ActorType& type) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nestor::actors

namespace nestor {
using actors::ActorInfo;
using actors::ActorOptions;
using actors::Runtime;
using actors::RuntimeOptions;
}  // namespace nestor
