#include <algorithm>
#include <utility>

#include <nestor/comm/backends/inproc/lane_channel.h>

namespace nestor::comm::inproc {

namespace {

// A wake-up through the kernel costs tens of microseconds, a poll some nanoseconds: spin for about as long as a short
// hand-over takes, and less where spinning did not pay, since lanes may outnumber cores.
constexpr unsigned kMinSpin = 16;
constexpr unsigned kMaxSpin = 1024;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Status LaneChannel::send(std::int32_t to, const Key& key, Message message, Deadline) {
  if (!inbox_.valid(to)) return inbox_.wrong_lane(to);
  {
    std::lock_guard lock(mutex_);
    if (inbox_.refused(key.generation)) return inbox_.refusal(key.generation);
  }
  const std::uint64_t size = bytes(message);
  Status status = lanes_[static_cast<std::size_t>(to)]->deliver({key, lane_}, message);
  if (status.ok()) {
    sent_messages_.fetch_add(1, std::memory_order_relaxed);
    sent_bytes_.fetch_add(size, std::memory_order_relaxed);
  }
  return status;
}

Status LaneChannel::deliver(const Address& address, Message& message) {
  bool wake = false, notify = false;
  {
    std::lock_guard lock(mutex_);
    const Inbox::Arrival arrival = inbox_.deliver(address, message);
    if (arrival == Inbox::Arrival::duplicate) {
      return lanes_[static_cast<std::size_t>(address.from)]->inbox_.misuse(
          lane_, address.key, "was sent before", "send each key once; give a repeated step a new generation");
    }
    if (arrival == Inbox::Arrival::expected) {
      wake = waiting_ && awaited_ == address;
      notify = wake && sleeping_;
    }
  }
  // After the lock: a spinning waiter that saw this earlier would run into the lock and sleep on it.
  if (wake) wake_.store(true, std::memory_order_release);
  if (notify) arrival_.notify_one();
  return {};
}

Status LaneChannel::post_recv(std::int32_t from, const Key& key) {
  std::lock_guard lock(mutex_);
  return inbox_.post(from, key);
}

void LaneChannel::spin() {
  bool woken = false;
  for (unsigned i = 0; i < spin_limit_ && !woken; ++i) {
    relax();
    woken = wake_.load(std::memory_order_acquire);
  }
  spin_limit_ = woken ? std::min(2 * spin_limit_, kMaxSpin) : std::max(spin_limit_ / 2, kMinSpin);
}

Status LaneChannel::wait(std::int32_t from, const Key& key, Deadline deadline, Message* out) {
  const Address address{key, from};
  std::unique_lock lock(mutex_);
  if (waiting_) {
    return inbox_.misuse(from, key, "is waited for while another wait is under way", "a channel belongs to one thread");
  }
  bool pending = false;
  if (Status status = inbox_.check_wait(from, key, &pending); !status.ok()) return status;
  if (pending) {
    waiting_ = true;
    awaited_ = address;
    wake_.store(false, std::memory_order_relaxed);
    lock.unlock();
    if (Clock::now() < deadline) spin();
    lock.lock();
    sleeping_ = true;
    // Only the key's state ends the wait: wake_ is a hint.
    while (!inbox_.refused(key.generation) && (pending = inbox_.pending(address))) {
      if (deadline == Deadline::max()) {
        arrival_.wait(lock);
      } else if (arrival_.wait_until(lock, deadline) == std::cv_status::timeout) {
        pending = inbox_.pending(address);
        break;
      }
    }
    sleeping_ = waiting_ = false;
    if (inbox_.refused(key.generation)) return inbox_.refusal(key.generation);
    if (pending) return inbox_.late(from, key);
  }
  inbox_.take(address, out);
  return {};
}

bool LaneChannel::poll(std::int32_t from, const Key& key) {
  std::lock_guard lock(mutex_);
  return inbox_.refused(key.generation) || !inbox_.pending({key, from});
}

void LaneChannel::refuse_below(std::uint64_t generation, const std::string* abort_cause) {
  std::vector<KeyTable::Dropped> dropped;  // destroyed after the lock is gone: an owner's deleter may take its time
  bool notify = false;
  {
    std::lock_guard lock(mutex_);
    if (!inbox_.refuse_below(generation, abort_cause, dropped)) return;
    notify = waiting_ && sleeping_ && inbox_.refused(awaited_.key.generation);
  }
  wake_.store(true, std::memory_order_release);
  if (notify) arrival_.notify_one();
}

void LaneChannel::abort(std::uint64_t generation, const std::string& cause) {
  refuse_below(after(generation), &cause);
}

void LaneChannel::set_generation(std::uint64_t generation) {
  refuse_below(generation, nullptr);
}

Counters LaneChannel::counters() const {
  std::lock_guard lock(mutex_);
  Counters counters = inbox_.received();
  counters.sent_messages = sent_messages_.load(std::memory_order_relaxed);
  counters.sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
  return counters;
}

}  // namespace nestor::comm::inproc
