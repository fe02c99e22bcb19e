#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <ucp/api/ucp.h>

#include <nestor/comm/backends/ucx/worker.h>
#include <nestor/comm/channel.h>

namespace nestor::comm::ucx {

/// Who may touch the worker. The lane takes the turn several times for each message, and nobody else does but now and
/// then: so the lane pays one atomic exchange for it, and the others poll. A thread that holds the turn for long gives
/// it to those that want it.
class Turn {
 public:
  void lock() {
    if (taken_.exchange(true, std::memory_order_acquire)) lock_slowly();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }
  bool wanted() const { return wanting_.load(std::memory_order_relaxed) != 0; }
  /// Unlocks until those that want the turn have had it.
  void pass() {
    unlock();
    while (wanted()) std::this_thread::yield();
    lock();
  }

 private:
  void lock_slowly();

  std::atomic<bool> taken_{false};
  std::atomic<int> wanting_{0};
};

/// Sleeps until a file descriptor is readable or somebody calls wake. One thread sleeps at a time.
class Sleeper {
 public:
  explicit Sleeper(int worker_fd);  ///< -1: only wake and deadlines end a sleep
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  void add(int fd, std::int32_t lane);  ///< reports `lane` when readable; closing the descriptor removes it
  void wake();                          ///< any thread
  /// The lane whose descriptor is readable, -1 for any other reason to go on.
  std::int32_t sleep(Clock::duration limit);

 private:
  /// Polled, not added to `epoll_`: each packet that arrives while its receiver spins would run through every epoll
  /// that has the worker's descriptor, and over loopback on the sender's time.
  const int worker_;
  int epoll_ = -1, event_ = -1;
};

/// A worker and who drives it: the lane's thread inside channel calls, a helper thread while the lane computes.
///
/// A waiting lane spins, then sleeps on the worker's descriptor. The helper looks every `kTick` whether the lane has
/// made a call since; once it has not, the helper makes progress and then sleeps on the worker's descriptor too, so
/// that a lane that only communicates never meets it, and a lane that computes pays nothing for being served.
class Engine {
 public:
  /// The channel, as seen from here. Called with the turn taken, never from within UCX's callbacks.
  class Client {
   public:
    virtual ~Client() = default;
    virtual void chores() = 0;                      ///< what callbacks left to do
    virtual void watch(Clock::time_point now) = 0;  ///< looks for peers that have gone silent
    virtual void process_ended(std::int32_t lane) = 0;
    virtual bool expecting() const = 0;  ///< peers owe us something: watch them while the lane computes
  };

  Engine(std::shared_ptr<Context> context, Client& client, Clock::duration watch_every);
  ~Engine();
  void start();  ///< starts the helper; the client is complete
  void stop();   ///< ends it. Without the turn.

  ucp_worker_h worker() const { return worker_->get(); }
  Worker& memory() { return *worker_; }
  Turn& turn() { return turn_; }

  /// A call of the lane's own thread: takes the turn, keeps the helper away.
  class Call {
   public:
    explicit Call(Engine& engine) : engine_(engine) { engine_.enter(); }
    ~Call() { engine_.leave(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Engine& engine_;
  };

  /// With the turn, on the lane's thread: makes progress until somebody stirs, or until the deadline: then false.
  /// Clear what was stirred before looking, then look, then drive.
  bool drive(Deadline deadline);
  void settle() { stirred_ = false; }
  void stir() { stirred_ = true; }  ///< with the turn: what the lane waits for may have changed
  unsigned progress() {
    worker_->collect();
    const unsigned events = ucp_worker_progress(worker());
    // Once stirred, the lane is about to return: let it drop what it got before more is received, into the same memory.
    if (chores_ && !(driving_ && stirred_)) tidy();
    return events;
  }
  void tidy() {  ///< with the turn: does the chores that are left
    if (std::exchange(chores_, false)) client_.chores();
  }
  void leave_chores() { chores_ = true; }
  void began() { ++unfinished_; }  ///< a request that completes by progress alone
  void ended() { --unfinished_; }
  std::size_t unfinished() const { return unfinished_; }
  void interrupt();  ///< with the turn: whoever sleeps looks again
  void watch_process(int fd, std::int32_t lane);

 private:
  unsigned look();  ///< makes progress some times, or until somebody stirs; what came
  void drive_on(Deadline deadline);
  void enter() {
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // only this thread writes it
    turn_.lock();
  }
  void leave() {
    const bool left_behind = unfinished_ != 0 || chores_;
    turn_.unlock();
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (left_behind && helper_rests_.load(std::memory_order_relaxed)) rouse_helper();
  }
  void rouse_helper();
  void sleep(Deadline deadline);
  void help();
  void help_while_quiet(std::uint64_t seen);

  const Worker::Owner worker_;
  Client& client_;
  const Clock::duration watch_every_;
  Turn turn_;
  std::unique_ptr<Sleeper> lane_sleeper_, helper_sleeper_, helper_timer_;
  bool lane_sleeps_ = false;               ///< needs the turn
  bool chores_ = false;                    ///< needs the turn
  bool stirred_ = false;                   ///< needs the turn
  bool driving_ = false;                   ///< needs the turn
  std::size_t unfinished_ = 0;             ///< needs the turn
  Clock::duration spin_;                   ///< the lane's; follows what paid off
  std::atomic<std::uint64_t> calls_{0};    ///< odd while the lane is inside a call
  std::atomic<bool> helper_rests_{false};  ///< the helper sleeps for long and would miss what the lane left behind
  std::atomic<bool> stopping_{false};
  std::thread helper_;
};

/// Asks for the turn from another thread than the lane's, and has sleepers look again afterwards.
class Visit {
 public:
  explicit Visit(Engine& engine) : engine_(engine) { engine_.turn().lock(); }
  ~Visit() {
    engine_.interrupt();
    engine_.turn().unlock();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Engine& engine_;
};

}  // namespace nestor::comm::ucx
