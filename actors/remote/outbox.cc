#include <cstdint>
#include <cstring>
#include <utility>

#include <nestor/actors/remote/outbox.h>
#include <nestor/comm/quiet_thread.h>

namespace nestor::actors::remote {
namespace {

/// No protobuf message begins with it.
constexpr char kSeveral = 0;

void append_envelope(std::string& message, std::string_view envelope) {
  const auto size = static_cast<std::uint32_t>(envelope.size());
  message.append(reinterpret_cast<const char*>(&size), sizeof size);
  message.append(envelope);
}

}  // namespace

bool each_envelope(std::string_view message, const std::function<void(std::string_view envelope)>& each) {
  if (message.empty()) return false;
  if (message.front() != kSeveral) {
    each(message);
    return true;
  }
  message.remove_prefix(1);
  while (!message.empty()) {
    std::uint32_t size = 0;
    if (message.size() < sizeof size) return false;
    std::memcpy(&size, message.data(), sizeof size);
    message.remove_prefix(sizeof size);
    if (size == 0 || size > message.size() || message.front() == kSeveral) return false;
    each(message.substr(0, size));
    message.remove_prefix(size);
  }
  return true;
}

std::string Outbox::send(std::string envelope, bool alone) {
  std::unique_lock lock(mutex_);
  ++sent_;
  if (alone && waiting_.empty() && !flushing_) {
    const comm::Status status = transmit_(std::move(envelope));
    return status.ok() ? "" : status.message;
  }
  if (waiting_bytes_ > kWaiting)
    return "more than " + std::to_string(kWaiting >> 20) + " MiB wait to be sent to it already";
  if (waiting_.empty() || waiting_.back().size() + envelope.size() > kMessage) waiting_.emplace_back(1, kSeveral);
  append_envelope(waiting_.back(), envelope);
  waiting_bytes_ += envelope.size();
  if (!std::exchange(flushing_, true)) {
    lock.unlock();
    flusher_.add(shared_from_this());
  }
  return {};
}

void Outbox::flush() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    std::string message = std::move(waiting_.front());
    waiting_.pop_front();
    if (waiting_.empty()) waiting_bytes_ = 0;
    lock.unlock();
    // Where the peer is gone, whoever waits for its answers hears that from its link.
    static_cast<void>(transmit_(std::move(message)));
    lock.lock();
  }
  flushing_ = false;
}

Flusher::Flusher() : thread_(comm::quiet_thread([this] { run(); })) {}

Flusher::~Flusher() {
  stop();
}

void Flusher::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Flusher::add(std::shared_ptr<Outbox> outbox) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    due_.push_back(std::move(outbox));
  }
  changed_.notify_one();
}

void Flusher::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !due_.empty(); });
    if (stop_) return;
    const auto outbox = std::move(due_.front());
    due_.pop_front();
    lock.unlock();
    outbox->flush();
    lock.lock();
  }
}

}  // namespace nestor::actors::remote
