#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nestor/comm/backends/ucx/engine.h>

namespace nestor::comm::ucx {

using namespace std::chrono_literals;

namespace {

// A wake-up through the kernel costs tens of microseconds and a round trip over TCP about as much: spin for longer than
// those, and less where spinning did not pay, since lanes may outnumber cores.
constexpr Clock::duration kMinSpin = 5us, kMaxSpin = 200us;
constexpr unsigned kSpinsPerLook = 32;
constexpr Clock::duration kTick = 500us, kLongTick = 16ms;
constexpr Clock::duration kNap = 1ms;    // where UCX has work that no descriptor announces (a full queue)
constexpr Clock::duration kRest = 50ms;  // and for what UCX queued on its own account

constexpr std::int32_t kWake = -1;

}  // namespace

void Turn::lock_slowly() {
  wanting_.fetch_add(1, std::memory_order_relaxed);
  for (unsigned tries = 0; taken_.exchange(true, std::memory_order_acquire); ++tries) {
    if (tries < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(20us);  // the holder may be a lane of lower priority
    }
  }
  wanting_.fetch_sub(1, std::memory_order_relaxed);
}

Sleeper::Sleeper(int worker_fd)
    : worker_(worker_fd), epoll_(epoll_create1(EPOLL_CLOEXEC)), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_ < 0 || event_ < 0) throw std::system_error(errno, std::generic_category(), "ucx: epoll or eventfd");
  add(event_, kWake);
}

Sleeper::~Sleeper() {
  close(event_);
  close(epoll_);
}

void Sleeper::add(int fd, std::int32_t lane) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = lane;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "ucx: epoll_ctl");
  }
}

void Sleeper::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof(one));  // full: it is readable already
}

std::int32_t Sleeper::sleep(Clock::duration limit) {
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(std::clamp<Clock::duration>(limit, 0ms, 1h));
  const timespec timeout{time.count() / 1'000'000'000, time.count() % 1'000'000'000};
  pollfd wanted[2] = {{worker_, POLLIN, 0}, {epoll_, POLLIN, 0}};
  if (ppoll(wanted, 2, &timeout, nullptr) <= 0 || wanted[1].revents == 0) return -1;
  epoll_event events[4];
  const int count = epoll_wait(epoll_, events, 4, 0);
  std::int32_t lane = -1;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == kWake) {
      std::uint64_t value;
      [[maybe_unused]] const ssize_t got = read(event_, &value, sizeof(value));
    } else if (events[i].data.fd >= 0) {
      lane = events[i].data.fd;
    }
  }
  return lane;
}

Engine::Engine(std::shared_ptr<Context> context, Client& client, Clock::duration watch_every)
    : worker_(Worker::open(std::move(context))), client_(client), watch_every_(watch_every), spin_(kMaxSpin) {
  int fd = -1;
  if (const ucs_status_t status = ucp_worker_get_efd(worker(), &fd); status != UCS_OK) {
    throw std::runtime_error(std::string("ucx: the worker has no event descriptor: ") + ucs_status_string(status));
  }
  lane_sleeper_ = std::make_unique<Sleeper>(fd);
  helper_sleeper_ = std::make_unique<Sleeper>(fd);
  helper_timer_ = std::make_unique<Sleeper>(-1);
}

Engine::~Engine() {
  stop();
}

void Engine::start() {
  helper_ = std::thread([this] { help(); });
}

void Engine::stop() {
  stopping_.store(true);
  helper_sleeper_->wake();
  helper_timer_->wake();
  if (helper_.joinable()) helper_.join();
}

void Engine::rouse_helper() {
  helper_rests_.store(false, std::memory_order_relaxed);
  helper_sleeper_->wake();
  helper_timer_->wake();
}

bool Engine::drive(Deadline deadline) {
  driving_ = true;
  look();  // before the clock is read, which costs as much as receiving a small message
  if (!stirred_) drive_on(deadline);
  driving_ = false;
  return stirred_;
}

unsigned Engine::look() {
  unsigned events = 0;
  for (unsigned i = 0; i < kSpinsPerLook && !stirred_; ++i) {
    if (turn_.wanted()) turn_.pass();
    events += progress();
  }
  return events;
}

void Engine::drive_on(Deadline deadline) {
  Clock::time_point now = Clock::now(), quiet_since = now;
  // A quiet time that ended within the longest spin, asleep or not, was worth spinning for.
  const auto quiet_ends = [&] {
    if (now - quiet_since <= kMaxSpin) spin_ = kMaxSpin;
  };
  bool slept = false;
  while (!stirred_ && now < deadline) {
    const unsigned events = look();
    if (stirred_ && spin_ == kMaxSpin) return;  // nothing to learn from the time
    now = Clock::now();
    if (stirred_) break;
    if (events != 0) {  // a large message arrives: a sender that has to wake us for each piece is half as fast
      quiet_ends();
      quiet_since = now;
      slept = false;
    } else if (slept || now - quiet_since > spin_) {
      if (!slept) spin_ = std::max(spin_ / 2, kMinSpin);
      slept = true;
      sleep(deadline);
      now = Clock::now();
    }
  }
  quiet_ends();
}

void Engine::sleep(Deadline deadline) {
  Clock::duration limit = std::min<Clock::duration>(watch_every_, deadline - Clock::now());
  if (ucp_worker_arm(worker()) != UCS_OK) {
    if (progress() != 0) return;
    limit = std::min<Clock::duration>(limit, kNap);
  }
  lane_sleeps_ = true;
  turn_.unlock();
  const std::int32_t lane = lane_sleeper_->sleep(limit);
  turn_.lock();
  lane_sleeps_ = false;
  if (lane >= 0) client_.process_ended(lane);
  client_.watch(Clock::now());
}

void Engine::interrupt() {
  if (lane_sleeps_) lane_sleeper_->wake();
  if (helper_rests_.load(std::memory_order_relaxed)) rouse_helper();
}

void Engine::watch_process(int fd, std::int32_t lane) {
  lane_sleeper_->add(fd, lane);
  helper_sleeper_->add(fd, lane);
}

void Engine::help() {
  std::uint64_t seen = calls_.load(std::memory_order_acquire);
  Clock::duration tick = kTick;
  while (!stopping_.load(std::memory_order_relaxed)) {
    helper_rests_.store(tick > kTick, std::memory_order_relaxed);
    helper_timer_->sleep(tick);
    const std::uint64_t calls = calls_.load(std::memory_order_acquire);
    if (calls % 2 == 0 && calls == seen) {
      help_while_quiet(seen);
      tick = kTick;
    } else {
      // A lane that waits drives the worker itself; it wakes us when it leaves something behind.
      tick = calls % 2 == 1 && calls == seen ? std::min<Clock::duration>(2 * tick, kLongTick) : kTick;
    }
    seen = calls_.load(std::memory_order_acquire);
  }
}

void Engine::help_while_quiet(std::uint64_t seen) {
  const auto quiet = [&] {
    return calls_.load(std::memory_order_acquire) == seen && !stopping_.load(std::memory_order_relaxed);
  };
  while (quiet()) {
    Clock::duration limit = kRest;
    turn_.lock();
    while (quiet() && progress() != 0) {
      if (turn_.wanted()) turn_.pass();
    }
    client_.watch(Clock::now());
    if (client_.expecting()) limit = std::min(limit, watch_every_);
    const bool armed = ucp_worker_arm(worker()) == UCS_OK;
    if (!armed) limit = kNap / 10;
    helper_rests_.store(true, std::memory_order_relaxed);
    turn_.unlock();
    const std::int32_t lane = helper_sleeper_->sleep(limit);
    helper_rests_.store(false, std::memory_order_relaxed);
    if (lane >= 0) {
      turn_.lock();
      client_.process_ended(lane);
      turn_.unlock();
    }
  }
}

}  // namespace nestor::comm::ucx
