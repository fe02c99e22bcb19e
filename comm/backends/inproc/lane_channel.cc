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

std::string describe(std::int32_t peer, const Key& key, const char* relation) {
  return "key (generation " + std::to_string(key.generation) + ", step " + std::to_string(key.step) + ", tag " +
         std::to_string(key.tag) + ") " + relation + " lane " + std::to_string(peer);
}

}  // namespace

Status LaneChannel::wrong_lane(std::int32_t lane) const {
  return {Code::misuse, "lane " + std::to_string(lane_) + ": no lane " + std::to_string(lane) + " (lanes are 0 to " +
                            std::to_string(lanes_.size() - 1) + ")"};
}

Status LaneChannel::misuse(std::int32_t peer, const Key& key, const char* what, const char* hint) const {
  return {Code::misuse,
          "lane " + std::to_string(lane_) + ": " + describe(peer, key, "of") + " " + what + " (" + hint + ")"};
}

Status LaneChannel::refusal(std::uint64_t generation) const {
  if (!refused(generation)) return {};
  if (generation < aborted_below_) return {Code::aborted, abort_cause_};
  return {Code::stale, "lane " + std::to_string(lane_) + ": generation " + std::to_string(generation) +
                           " is over (the channel is at " + std::to_string(accepted_from_) + ")"};
}

Status LaneChannel::send(std::int32_t to, const Key& key, Message message, Deadline) {
  if (!valid(to)) return wrong_lane(to);
  {
    std::lock_guard lock(mutex_);
    if (refused(key.generation)) return refusal(key.generation);
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
    if (refused(address.key.generation)) {  // the receiver has moved on; the sender will hear of it
      ++received_.stale_dropped;
      return {};
    }
    KeyTable::Slot* slot = table_.find(address);
    if (slot == nullptr) {
      table_.insert(address, KeyState::arrived).message = std::move(message);
    } else if (slot->state == KeyState::posted) {
      slot->message = std::move(message);
      slot->state = KeyState::ready;
      wake = waiting_ && awaited_ == address;
      notify = wake && sleeping_;
    } else {
      return lanes_[static_cast<std::size_t>(address.from)]->misuse(
          lane_, address.key, "was sent before", "send each key once; give a repeated step a new generation");
    }
  }
  // After the lock: a spinning waiter that saw this earlier would run into the lock and sleep on it.
  if (wake) wake_.store(true, std::memory_order_release);
  if (notify) arrival_.notify_one();
  return {};
}

Status LaneChannel::post_recv(std::int32_t from, const Key& key) {
  if (!valid(from)) return wrong_lane(from);
  std::lock_guard lock(mutex_);
  if (refused(key.generation)) return refusal(key.generation);
  const Address address{key, from};
  KeyTable::Slot* slot = table_.find(address);
  if (slot == nullptr) {
    table_.insert(address, KeyState::posted);
  } else if (slot->state == KeyState::arrived) {
    slot->state = KeyState::ready;
  } else if (slot->state == KeyState::taken) {
    return misuse(from, key, "was received before", "receive each key once; keep the message if it is needed twice");
  } else {
    return misuse(from, key, "was posted before", "post each receive once, then wait for it");
  }
  return {};
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
  if (!valid(from)) return wrong_lane(from);
  const Address address{key, from};
  std::unique_lock lock(mutex_);
  if (waiting_) {
    return misuse(from, key, "is waited for while another wait is under way", "a channel belongs to one thread");
  }
  if (refused(key.generation)) return refusal(key.generation);
  KeyTable::Slot* slot = table_.find(address);
  if (slot == nullptr || slot->state == KeyState::arrived) {
    return misuse(from, key, "is waited for without a posted receive", "call post_recv first");
  }
  if (slot->state == KeyState::taken) {
    return misuse(from, key, "was received before", "receive each key once; keep the message if it is needed twice");
  }
  if (slot->state == KeyState::posted) {
    waiting_ = true;
    awaited_ = address;
    wake_.store(false, std::memory_order_relaxed);
    lock.unlock();
    if (Clock::now() < deadline) spin();
    lock.lock();
    sleeping_ = true;
    // Only the key's state ends the wait: wake_ is a hint, and the table may have grown meanwhile.
    while (!refused(key.generation) && (slot = table_.find(address))->state == KeyState::posted) {
      if (deadline == Deadline::max()) {
        arrival_.wait(lock);
      } else if (arrival_.wait_until(lock, deadline) == std::cv_status::timeout) {
        break;
      }
    }
    sleeping_ = waiting_ = false;
    if (refused(key.generation)) return refusal(key.generation);
    slot = table_.find(address);
    if (slot->state == KeyState::posted) {
      return {Code::deadline, "lane " + std::to_string(lane_) + ": " + describe(from, key, "from") +
                                  " did not arrive in time (its receive stays posted)"};
    }
  }
  *out = table_.take(*slot);
  ++received_.received_messages;
  received_.received_bytes += bytes(*out);
  return {};
}

bool LaneChannel::poll(std::int32_t from, const Key& key) {
  if (!valid(from)) return true;  // wait answers at once: misuse
  std::lock_guard lock(mutex_);
  if (refused(key.generation)) return true;
  const KeyTable::Slot* slot = table_.find({key, from});
  return slot == nullptr || slot->state != KeyState::posted;
}

void LaneChannel::refuse_below(std::uint64_t generation, const std::string* abort_cause) {
  std::vector<Message> dropped;  // destroyed after the lock is gone: an owner's deleter may take its time
  bool notify = false;
  {
    std::lock_guard lock(mutex_);
    if (abort_cause != nullptr && generation > aborted_below_) {
      aborted_below_ = generation;
      abort_cause_ = *abort_cause;
    }
    if (generation <= accepted_from_) return;
    accepted_from_ = generation;
    table_.drop_below(generation, dropped);
    received_.stale_dropped += dropped.size();
    notify = waiting_ && sleeping_ && refused(awaited_.key.generation);
  }
  wake_.store(true, std::memory_order_release);
  if (notify) arrival_.notify_one();
}

void LaneChannel::abort(std::uint64_t generation, const std::string& cause) {
  const std::uint64_t next = generation + 1 == 0 ? generation : generation + 1;
  refuse_below(next, &cause);
}

void LaneChannel::set_generation(std::uint64_t generation) {
  refuse_below(generation, nullptr);
}

Counters LaneChannel::counters() const {
  std::lock_guard lock(mutex_);
  Counters counters = received_;
  counters.sent_messages = sent_messages_.load(std::memory_order_relaxed);
  counters.sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
  return counters;
}

}  // namespace nestor::comm::inproc
