#pragma once

#include <memory>
#include <string>

#include <nestor/actors/detail/cell.h>

namespace nestor::actors {

template <class T>
class Handle;
class Runtime;

/// What a monitoring actor is told of one that died.
struct Down {
  std::string actor;
  std::string cause;
};

/// Base of every actor. Its constructor, methods, hooks and destructor all run in the actor's own thread, one at a
/// time, in the order the calls were made: its members need no locks. A method may block; only this actor waits then.
/// A method that throws fails its call, and the actor lives on. Constructed by Runtime::spawn.
class Actor {
 public:
  Actor() : cell_(current_cell()) {}
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  virtual ~Actor() = default;

  /// Called once before the object is destroyed, however it ends: stop, kill, quit or shutdown.
  virtual void on_stop() {}
  /// A monitored actor died.
  virtual void on_down(const Down&) {}

 protected:
  const std::string& name() const { return cell().name(); }
  /// The runtime that it lives in: to find and spawn others.
  Runtime& runtime() const;
  /// A handle to this actor, to give to others. Pass `this`, for the type: `self(this)`.
  template <class T>
  Handle<T> self(T* me) const {
    static_cast<void>(me);
    return Handle<T>(cell().shared_from_this());
  }
  /// From now on `other`'s death calls on_down, at once if it is dead already.
  template <class T>
  void monitor(const Handle<T>& other) const {
    other.cell().watch(cell().shared_from_this());
  }
  /// Ends this actor after the current method, with a cause for those who call it later.
  void quit(const std::string& cause = "it quit") { cell().quit(cause); }

 private:
  static detail::Cell* current_cell() { return detail::Cell::current(); }
  detail::Cell& cell() const;

  detail::Cell* cell_;  ///< owns this object; null for one that was not spawned
};

}  // namespace nestor::actors

namespace nestor {
using actors::Actor;
using actors::Down;
}  // namespace nestor
