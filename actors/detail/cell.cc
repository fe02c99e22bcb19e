#include <algorithm>
#include <utility>

#include <nestor/actors/actor.h>
#include <nestor/actors/detail/cell.h>
#include <nestor/actors/detail/future_state.h>
#include <nestor/actors/error.h>
#include <nestor/actors/registry.h>

namespace nestor::actors {

detail::Cell& Actor::cell() const {
  if (cell_ == nullptr) throw Error("actor", "was not spawned", "make actors by Runtime::spawn");
  return *cell_;
}

Runtime& Actor::runtime() const {
  return cell().registry()->runtime();
}

namespace detail {

namespace {

thread_local Cell* current_cell = nullptr;

class CurrentCell {
 public:
  explicit CurrentCell(Cell* cell) : before_(std::exchange(current_cell, cell)) {}
  ~CurrentCell() { current_cell = before_; }

 private:
  Cell* before_;
};

/// Work that no caller waits for: what it throws ends the actor, so that it is not lost.
class Notice final : public Task {
 public:
  Notice(const char* what, std::function<void(Cell&)> work) : what_(what), work_(std::move(work)) {}
  bool run(Cell& cell) override {
    try {
      work_(cell);
    } catch (const std::exception& error) {
      cell.quit(std::string(what_) + " threw: " + error.what());
    } catch (...) {
      cell.quit(std::string(what_) + " threw");
    }
    return false;
  }
  void abandon(std::exception_ptr) override {}
  bool settled() const override { return true; }

 private:
  const char* what_;
  std::function<void(Cell&)> work_;
};

}  // namespace

Cell::Cell(std::string name, ActorType type, std::size_t mailbox_limit, std::chrono::nanoseconds send_limit,
           std::size_t concurrency, std::shared_ptr<Registry> registry)
    : name_(std::move(name)),
      type_(std::move(type)),
      mailbox_limit_(mailbox_limit),
      send_limit_(send_limit),
      concurrency_(concurrency),
      registry_(std::move(registry)) {}

Cell::Cell(std::string name, ActorType type, std::shared_ptr<Registry> registry, std::shared_ptr<Elsewhere> elsewhere)
    : name_(std::move(name)),
      type_(std::move(type)),
      mailbox_limit_(0),
      send_limit_(0),
      registry_(std::move(registry)),
      elsewhere_(std::move(elsewhere)),
      state_(CellState::alive) {}

Cell::~Cell() = default;

std::string Task::encode(Encoder&, Encoded&) {
  throw Error("call", "only methods can be called in another process", "list the method in describe()");
}

void Task::complete(Decoder&) {}

bool Task::is_call(const std::string&, std::uint64_t) const {
  return false;
}

Cell* Cell::current() {
  return current_cell;
}

CellState Cell::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

std::size_t Cell::queued() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

std::size_t Cell::load() const {
  std::unique_lock lock(mutex_);
  if (state_ >= CellState::dead) return static_cast<std::size_t>(-1);
  if (!elsewhere_) return queue_.size() + running_.size();
  lock.unlock();
  return elsewhere_->load();
}

std::string Cell::death_cause() const {
  std::lock_guard lock(mutex_);
  return cause_;
}

std::exception_ptr Cell::obituary() const {
  return std::make_exception_ptr(ActorDied(name_, death_cause()));
}

void Cell::post(std::shared_ptr<Task> task, bool exempt_from_limit) {
  if (elsewhere_) {
    if (state() >= CellState::dead) return task->abandon(obituary());
    return elsewhere_->post(task);
  }
  std::shared_ptr<Waker> waker;
  {
    std::unique_lock lock(mutex_);
    const auto room = [this] { return queue_.size() < mailbox_limit_ || state_ >= CellState::dead; };
    if (!exempt_from_limit && !room()) {
      bool freed = false;
      if (current_cell != this) {
        ++blocked_;
        freed = room_.wait_until(lock, deadline_after(send_limit_), room);
        --blocked_;
      }
      if (!freed) {
        throw CallTimeout(name_, "its mailbox is full (" + std::to_string(mailbox_limit_) + " calls)",
                          "wait for results before calling more");
      }
    }
    if (state_ < CellState::dead) {
      queue_.push_back(std::move(task));
      waker = idle_thread();
    }
  }
  if (task) task->abandon(obituary());
  if (waker) waker->wake();
}

void Cell::post_after(std::chrono::nanoseconds delay, std::shared_ptr<Task> task) {
  std::shared_ptr<Waker> waker;
  {
    std::lock_guard lock(mutex_);
    if (!wakers_.empty()) waker = wakers_.front();
  }
  if (waker) waker->wake_after(delay, std::move(task), weak_from_this());
}

std::shared_ptr<Waker> Cell::idle_thread() {
  if (idle_.empty()) return nullptr;
  const std::size_t thread = idle_.back();
  idle_.pop_back();
  return wakers_[thread];
}

void Cell::set_wakers(std::vector<std::shared_ptr<Waker>> wakers) {
  std::vector<std::shared_ptr<Waker>> woken;
  {
    std::lock_guard lock(mutex_);
    wakers_ = std::move(wakers);
    threads_left_ = wakers_.size();
    for (std::size_t thread = wakers_.size(); thread > 0; --thread) idle_.push_back(thread - 1);
    const std::size_t wanted = state_ >= CellState::dead ? wakers_.size() : std::min(wakers_.size(), queue_.size());
    while (woken.size() < wanted) woken.push_back(idle_thread());
  }
  for (auto& waker : woken) waker->wake();
}

void Cell::discard() {
  std::lock_guard lock(mutex_);
  queue_.clear();
}

void Cell::construct(const Factory& factory) {
  actor_ = factory();
  std::lock_guard lock(mutex_);
  if (state_ == CellState::pending) state_ = CellState::alive;
}

Cell::Next Cell::next(std::size_t thread, std::shared_ptr<Task>& task) {
  std::lock_guard lock(mutex_);
  if (state_ >= CellState::dead) return Next::dead;
  const bool constructing = state_ == CellState::pending && !running_.empty();
  if (queue_.empty() || constructing) {
    idle_.push_back(thread);
    return Next::idle;
  }
  task = std::move(queue_.front());
  queue_.pop_front();
  running_.push_back(task);
  if (blocked_ > 0) room_.notify_one();
  return Next::run;
}

bool Cell::finished(std::shared_ptr<Task> task, bool replies_later) {
  std::shared_ptr<Waker> waker;
  {
    std::lock_guard lock(mutex_);
    running_.erase(std::find(running_.begin(), running_.end(), task));
    if (state_ >= CellState::dead) return false;
    if (replies_later) {
      if (deferred_.size() >= sweep_at_) {
        std::erase_if(deferred_, [](const auto& other) { return other->settled(); });
        sweep_at_ = 2 * deferred_.size() + 16;
      }
      deferred_.push_back(std::move(task));
    }
    if (quitting_) return true;
    if (queue_.size() > 1) waker = idle_thread();  // one waited for the construction
  }
  if (waker) waker->wake();
  return false;
}

bool Cell::drain(std::size_t thread) {
  CurrentCell current(this);
  for (;;) {
    std::shared_ptr<Task> task;
    switch (next(thread, task)) {
      case Next::idle:
        return true;
      case Next::dead: {
        bool last = false;
        {
          std::lock_guard lock(mutex_);
          last = --threads_left_ == 0;
        }
        if (last) end();
        return false;
      }
      case Next::run:
        break;
    }
    const bool replies_later = task->run(*this);
    if (finished(std::move(task), replies_later)) die(quit_cause_);
  }
}

void Cell::quit(const std::string& cause) {
  std::lock_guard lock(mutex_);
  if (!std::exchange(quitting_, true)) quit_cause_ = cause;
}

void Cell::cancel(const std::string& from, std::uint64_t id) {
  std::shared_ptr<Task> found;
  {
    std::lock_guard lock(mutex_);
    const auto wanted = [&](const auto& task) { return task->is_call(from, id); };
    for (const auto* tasks : {&running_, &deferred_})
      if (const auto task = std::find_if(tasks->begin(), tasks->end(), wanted); task != tasks->end()) found = *task;
    if (const auto task = std::find_if(queue_.begin(), queue_.end(), wanted); task != queue_.end()) found = *task;
  }
  if (found) found->abandon(std::make_exception_ptr(CallCancelled(name_, "the call was cancelled")));
}

bool Cell::kill(const std::string& cause) {
  if (elsewhere_) {
    if (state() >= CellState::dead) return false;
    elsewhere_->end(cause, false, {});
    return true;
  }
  return die(cause);
}

bool Cell::die(const std::string& cause) {
  std::vector<std::shared_ptr<Task>> tasks;
  std::vector<std::weak_ptr<Cell>> watchers;
  std::vector<std::function<void(const std::string&)>> on_death;
  std::vector<std::shared_ptr<Waker>> wakers;
  {
    std::lock_guard lock(mutex_);
    if (state_ >= CellState::dead) return false;
    state_ = CellState::dead;
    cause_ = cause;
    tasks = running_;
    for (auto& task : deferred_) tasks.push_back(std::move(task));
    for (auto& task : queue_) tasks.push_back(std::move(task));
    deferred_.clear();
    queue_.clear();
    watchers.swap(watchers_);
    on_death.swap(on_death_);
    while (auto waker = idle_thread()) wakers.push_back(std::move(waker));
  }
  const std::exception_ptr error = obituary();
  if (elsewhere_) {
    elsewhere_->abandon(error);
  } else {
    // The name is free before a caller learns of the death, so that it can spawn a successor at once.
    registry_->died(*this, cause);
    room_.notify_all();
  }
  for (auto& task : tasks) task->abandon(error);
  for (auto& weak : watchers) {
    if (auto watcher = weak.lock()) notify_down(watcher);
  }
  for (auto& then : on_death) then(cause);
  for (auto& waker : wakers) waker->wake();
  return true;
}

void Cell::on_death(std::function<void(const std::string&)> then) {
  {
    std::lock_guard lock(mutex_);
    if (state_ < CellState::dead) {
      on_death_.push_back(std::move(then));
      return;
    }
  }
  then(death_cause());
}

void Cell::end() {
  if (actor_) {
    try {
      actor_->on_stop();
    } catch (...) {
      // The actor is dead and nobody waits for this hook: its cause of death is the one that counts.
    }
    actor_.reset();
  }
  std::vector<std::function<void()>> on_end;
  std::vector<std::shared_ptr<Waker>> wakers;
  std::vector<std::shared_ptr<Cell>> monitored;
  {
    std::lock_guard lock(mutex_);
    state_ = CellState::ended;
    on_end.swap(on_end_);
    wakers.swap(wakers_);
    monitored.swap(monitored_);
  }
  registry_->ended(*this);
  for (auto& function : on_end) function();
}

void Cell::stop(std::function<void()> ended) {
  if (elsewhere_) {
    if (state() >= CellState::dead) return ended();
    return elsewhere_->end("it was stopped", true, std::move(ended));
  }
  bool has_ended = false, dead = false;
  {
    std::lock_guard lock(mutex_);
    has_ended = state_ == CellState::ended;
    dead = state_ >= CellState::dead;
    if (!has_ended) on_end_.push_back(ended);
  }
  if (has_ended) ended();
  if (!dead) post(std::make_shared<Notice>("stop", [](Cell& cell) { cell.quit("it was stopped"); }), true);
}

void Cell::keep(std::shared_ptr<Cell> monitored) {
  std::lock_guard lock(mutex_);
  if (state_ < CellState::dead) monitored_.push_back(std::move(monitored));
}

void Cell::watch(const std::shared_ptr<Cell>& watcher) {
  if (elsewhere_) watcher->keep(shared_from_this());
  {
    std::lock_guard lock(mutex_);
    if (state_ < CellState::dead) {
      watchers_.push_back(watcher);
      return;
    }
  }
  notify_down(watcher);
}

void Cell::notify_down(const std::shared_ptr<Cell>& watcher) {
  watcher->post(std::make_shared<Notice>(
                    "on_down", [down = Down{name_, death_cause()}](Cell& cell) { cell.object().on_down(down); }),
                true);
}

Cell::WaitGuard::~WaitGuard() {
  if (waiting_ == nullptr) return;
  std::lock_guard lock(waiting_->registry_->wait_graph());
  waiting_->waits_for_ = nullptr;
}

void Cell::begin_wait(const FutureState& state, bool bounded, WaitGuard& guard) {
  if (concurrency_ > 1) return;  // another of its threads can run the call
  std::lock_guard lock(registry_->wait_graph());
  std::string path = name_;
  const FutureState* waited = &state;
  while (waited != nullptr && !waited->done() && waited->target() != nullptr) {  // a done one's waiter is waking up
    const Cell* target = waited->target();
    path += " -> " + target->name_;
    if (target == this) {
      throw Error(name_, "would wait for itself for ever: " + path,
                  "an actor runs one call at a time; call the method directly, or keep the future and return");
    }
    if (bounded || target->registry_ != registry_) break;
    waited = target->waits_for_;
  }
  if (bounded) return;
  waits_for_ = &state;
  guard.waiting_ = this;
}

}  // namespace detail
}  // namespace nestor::actors
