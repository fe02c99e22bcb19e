#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <vector>

namespace nestor::actors {

class Actor;
class Decoder;
class Encoder;
struct Encoded;
struct Down;

namespace detail {

class Cell;
class FutureState;
class Registry;

/// A piece of work in an actor's mailbox.
class Task {
 public:
  virtual ~Task() = default;
  /// In the actor's thread. Never throws: what the work throws goes to its future. True when the reply comes later, by
  /// a promise: the cell then keeps the task to fail it should the actor die before.
  virtual bool run(Cell& cell) = 0;
  /// The actor is dead; `run` has not been called, is under way, or has left the reply for later. Any thread.
  virtual void abandon(std::exception_ptr error) = 0;
  virtual bool settled() const = 0;

  /// For an actor in another process: writes the arguments, which are then gone, and returns the method's name. Throws
  /// Error where the work is nothing that can be sent.
  virtual std::string encode(Encoder& encoder, Encoded& arguments);
  /// The other process's answer.
  virtual void complete(Decoder& result);
  /// Is it the call that `from` made under this number?
  virtual bool is_call(const std::string& from, std::uint64_t id) const;
};

struct Incoming;
struct Transcoder;
/// Makes the task of a call that came from another process (incoming.h).
using MakeIncoming = std::function<std::shared_ptr<Task>(const std::shared_ptr<Cell>&, Incoming)>;

/// What is known of an actor's class at run time.
struct ActorType {
  std::string name;
  std::type_index type;
  /// By the name of a listed method; empty where other processes cannot call it.
  MakeIncoming (*incoming)(const std::string& method);
  Transcoder (*transcoder)(const std::string& method);
  std::vector<std::string> (*methods)();
};

/// What stands behind the cell of an actor in another process. Any thread.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  /// Sends the task's call, or abandons it. Never blocks on the other process.
  virtual void post(const std::shared_ptr<Task>& task) = 0;
  /// Asks for the actor's end; its death is heard of later. `drained` (may be empty) is called when it is gone.
  virtual void end(const std::string& cause, bool drain, std::function<void()> ended) = 0;
  /// The cell has died: fails the calls under way.
  virtual void abandon(const std::exception_ptr& error) = 0;
  /// The caller has given a call up: it need not be run.
  virtual void cancelled(const Task& task) = 0;
  /// Calls under way.
  virtual std::size_t load() const = 0;
};

/// Gives a cell a thread: after `wake` the cell's drain is called soon, in the actor's own thread. Any thread.
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake() = 0;
  virtual void wake_after(std::chrono::nanoseconds delay, std::shared_ptr<Task> task, std::weak_ptr<Cell> to) = 0;
};

enum class CellState : std::uint8_t {
  pending,  ///< its constructor has not returned
  alive,
  dead,   ///< takes no calls; a method that was under way may still be running
  ended,  ///< its object is gone
};

/// An actor seen from outside: name, mailbox, life. Handles share it; it outlives the actor and the runtime.
/// Any thread, unless said otherwise.
class Cell : public std::enable_shared_from_this<Cell> {
 public:
  using Factory = std::function<std::unique_ptr<Actor>()>;

  /// The first task posted must construct the object. Up to `concurrency` threads run the others.
  Cell(std::string name, ActorType type, std::size_t mailbox_limit, std::chrono::nanoseconds send_limit,
       std::size_t concurrency, std::shared_ptr<Registry> registry);
  /// Of an actor in another process.
  Cell(std::string name, ActorType type, std::shared_ptr<Registry> registry, std::shared_ptr<Elsewhere> elsewhere);
  ~Cell();

  const std::string& name() const { return name_; }
  const std::string& type_name() const { return type_.name; }
  const ActorType& type() const { return type_; }
  CellState state() const;
  std::size_t queued() const;
  /// Calls queued or under way; a dead actor has the most.
  std::size_t load() const;
  /// Empty while it lives.
  std::string death_cause() const;
  const std::shared_ptr<Registry>& registry() const { return registry_; }
  /// Null for an actor of this process.
  Elsewhere* elsewhere() const { return elsewhere_.get(); }
  /// The other process told of its actor's death.
  void died_elsewhere(const std::string& cause) { die(cause); }

  /// Puts a task in the mailbox. A full mailbox blocks the caller until there is room, at most the send limit; then,
  /// and at once inside the actor itself, throws CallTimeout. A dead actor abandons the task.
  void post(std::shared_ptr<Task> task, bool exempt_from_limit = false);
  void post_after(std::chrono::nanoseconds delay, std::shared_ptr<Task> task);
  /// Ends the actor now: calls queued, running or deferred fail with `cause`. False when it was dead already.
  bool kill(const std::string& cause);
  /// Ends it after what is queued. `ended` is called when its object is gone.
  void stop(std::function<void()> ended);
  /// Fails the call that `from` made under this number, which is then never begun.
  void cancel(const std::string& from, std::uint64_t id);
  /// `watcher` gets on_down when this one dies, at once if it is dead.
  void watch(const std::shared_ptr<Cell>& watcher);
  /// `then` gets the cause when it dies, in the thread that ends it; at once if it is dead.
  void on_death(std::function<void(const std::string& cause)> then);

  /// Notes that this actor's method waits for `state` until the guard goes. Throws Error where that would never end:
  /// `state` is a call of this very actor, or of one that waits, directly or through others, for this one. A wait with
  /// a limit is not noted, and only refused for a call of the actor itself.
  class WaitGuard {
   public:
    WaitGuard() = default;
    WaitGuard(const WaitGuard&) = delete;
    WaitGuard& operator=(const WaitGuard&) = delete;
    ~WaitGuard();

   private:
    friend class Cell;
    Cell* waiting_ = nullptr;
  };
  void begin_wait(const FutureState& state, bool bounded, WaitGuard& guard);

  /// The cell whose method this thread runs, or null.
  static Cell* current();

  /// For a cell that never gets a thread: forgets what is queued.
  void discard();
  std::size_t concurrency() const { return concurrency_; }
  /// Its threads: from now on they are woken when there is work, at once if there is some.
  void set_wakers(std::vector<std::shared_ptr<Waker>> wakers);

  // --- the actor's own threads ---
  Actor& object() { return *actor_; }
  /// Constructs the object. Throws what the constructor throws; the actor is then dead.
  void construct(const Factory& factory);
  /// Runs what is queued, as its thread of that number. False when the actor has ended: call no more.
  bool drain(std::size_t thread);
  /// Dies after the current method.
  void quit(const std::string& cause);

 private:
  friend class Registry;
  bool die(const std::string& cause);
  void end();
  enum class Next { run, idle, dead };
  Next next(std::size_t thread, std::shared_ptr<Task>& task);
  /// True when the actor is to die now.
  bool finished(std::shared_ptr<Task> task, bool replies_later);
  std::shared_ptr<Waker> idle_thread();
  void keep(std::shared_ptr<Cell> monitored);
  std::exception_ptr obituary() const;
  void notify_down(const std::shared_ptr<Cell>& watcher);

  const std::string name_;
  const ActorType type_;
  const std::size_t mailbox_limit_;
  const std::chrono::nanoseconds send_limit_;
  const std::size_t concurrency_ = 1;
  const std::shared_ptr<Registry> registry_;
  const std::shared_ptr<Elsewhere> elsewhere_;

  mutable std::mutex mutex_;
  std::condition_variable room_;
  CellState state_ = CellState::pending;
  std::string cause_;
  std::deque<std::shared_ptr<Task>> queue_;
  std::vector<std::shared_ptr<Task>> running_;
  std::vector<std::shared_ptr<Task>> deferred_;  ///< ran, but reply later; settled ones are swept now and then
  std::size_t sweep_at_ = 16;
  std::vector<std::weak_ptr<Cell>> watchers_;
  std::vector<std::function<void(const std::string&)>> on_death_;
  std::vector<std::function<void()>> on_end_;
  std::vector<std::shared_ptr<Waker>> wakers_;    ///< by thread
  std::vector<std::size_t> idle_;                 ///< threads that neither drain nor have been woken
  std::size_t threads_left_ = 0;                  ///< that have not heard of its death
  std::vector<std::shared_ptr<Cell>> monitored_;  ///< proxies must live to tell of the deaths elsewhere
  std::string quit_cause_;
  bool quitting_ = false;
  std::size_t blocked_ = 0;  ///< callers waiting for room

  std::unique_ptr<Actor> actor_;            ///< the actor's threads alone
  const FutureState* waits_for_ = nullptr;  ///< under the registry's wait lock
};

}  // namespace detail
}  // namespace nestor::actors
