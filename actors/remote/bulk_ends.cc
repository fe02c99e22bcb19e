#include <algorithm>
#include <utility>

#include <nestor/actors/remote/bulk_ends.h>
#include <nestor/actors/remote/letter.h>
#include <nestor/comm/quiet_thread.h>

namespace nestor::actors::remote {
namespace {

constexpr std::int32_t kReceiver = 0, kSender = 1;
constexpr comm::Deadline kNever = comm::Deadline::max();

}  // namespace

// --- both ---

void BulkEnd::start() {
  thread_ = comm::quiet_thread([this] {
    std::string cause = run();
    {
      std::lock_guard lock(mutex_);
      if (closed_) cause.clear();
    }
    ended(cause);
    std::unique_ptr<comm::UcxChannel> channel;  // said farewell to without the lock
    {
      std::lock_guard lock(mutex_);
      channel = std::move(channel_);
    }
    channel.reset();
    finished_.store(true, std::memory_order_release);
  });
}

void BulkEnd::join() {
  close("it is over");
  if (thread_.joinable()) thread_.join();
}

std::string BulkEnd::run() {
  try {
    auto opened = comm::open_ucx_channel(lane_, 2, options_);
    opened->set_generation(kGeneration);
    {
      std::lock_guard lock(mutex_);
      channel_ = std::move(opened);
      if (closed_) return {};
    }
    return carry();
  } catch (const std::exception& error) {
    return error.what();
  }
}

void BulkEnd::close(const std::string& cause) {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    give_up(cause);
  }
  changed_.notify_all();
}

void BulkEnd::give_up(const std::string& cause) {
  if (!channel_) return;
  channel_->abort(kGeneration, cause);
  // A receiver's copying is not cut off: its thread closes the channel when that has come to an end.
  if (lane_ == kSender) channel_->drop_peer(1 - lane_, cause);
}

comm::Status BulkEnd::hello(comm::Deadline deadline) {
  const comm::Key key{kGeneration, 0, 0};
  const std::int32_t other = 1 - lane_;
  if (auto status = channel_->post_recv(other, key); !status.ok()) return status;
  if (auto status = channel_->send(other, key, {}, deadline); !status.ok()) return status;
  comm::Message nothing;
  return channel_->wait(other, key, deadline, &nothing);
}

// --- the sender ---

BulkSender::BulkSender(std::uint64_t number_of_it, comm::UcxOptions options, Hooks hooks, std::chrono::nanoseconds idle)
    : BulkEnd(number_of_it, kSender, std::move(options)), hooks_(std::move(hooks)), idle_(idle) {
  start();
}

BulkSender::~BulkSender() {
  join();
}

bool BulkSender::send(const LetterPtr& letter) {
  if (const std::uint64_t gone = hooks_.sent_by_link(); gone != fenced_) {
    fence_ = hooks_.fence();
    fenced_ = gone + 1;  // with the fence; where more has gone meanwhile, the next letter sees that
  }
  letter->envelope.set_after(fence_);
  {
    std::lock_guard lock(mutex_);
    if (over_ || closed_) return false;
    queue_.push_back(letter);
  }
  changed_.notify_all();
  return true;
}

bool BulkSender::withdraw(const LetterPtr& letter) {
  std::lock_guard lock(mutex_);
  return std::erase(queue_, letter) > 0;
}

void BulkSender::answered(const std::string& address, const std::string& refused) {
  std::unique_lock lock(mutex_);
  if (answered_ && !refused.empty()) {  // the receiver gives up
    refused_ = refused;
    return give_up(refused);
  }
  answered_ = true;
  address_ = address;
  refused_ = refused;
  lock.unlock();
  changed_.notify_all();
}

std::string BulkSender::meet() {
  const comm::Deadline deadline = comm::Clock::now() + kOpenLimit;
  hooks_.offer(*this, channel().address());
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return answered_ || closed_; });
    if (closed_) return {};
    if (!refused_.empty()) return refused_;
    if (!answered_) return "the other process did not answer";
  }
  channel().set_peer(kReceiver, address_);
  const comm::Status status = hello(deadline);
  return status.ok() ? "" : status.message;
}

std::string BulkSender::carry() {
  if (std::string trouble = meet(); !trouble.empty()) return trouble;
  ready_.store(true, std::memory_order_release);
  for (;;) {
    LetterPtr next;
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [this] { return closed_ || !queue_.empty(); };
      if (under_way_.empty() && !changed_.wait_for(lock, idle_, wanted)) {
        over_ = true;
        return {};
      }
      if (closed_) return {};
      if (!queue_.empty() && under_way_.size() < kUnderWay) {
        next = std::move(queue_.front());
        queue_.pop_front();
        under_way_.push_back(next);
      }
    }
    if (comm::Status status = next ? send_next(next) : take_receipt(); !status.ok()) return status.message;
    while (received_ < sent_ && channel().poll(kReceiver, receipt_key(received_ + 1)))
      if (comm::Status status = take_receipt(); !status.ok()) return status.message;
  }
}

comm::Status BulkSender::send_next(const LetterPtr& letter) {
  ++sent_;
  if (auto status = channel().post_recv(kReceiver, receipt_key(sent_)); !status.ok()) return status;
  return channel().send(kReceiver, letter_key(sent_), pack(*letter), kNever);  // a silent peer is given up by UCX's end
}

comm::Status BulkSender::take_receipt() {
  comm::Message nothing;
  comm::Status status = channel().wait(kReceiver, receipt_key(received_ + 1), kNever, &nothing);
  if (!status.ok()) return status;
  ++received_;
  LetterPtr letter;
  {
    std::lock_guard lock(mutex_);
    letter = std::move(under_way_.front());
    under_way_.pop_front();
  }
  hooks_.carried(letter);
  return {};
}

void BulkSender::ended(const std::string& cause) {
  std::vector<LetterPtr> lost, unsent;
  std::string known = cause;
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    lost.assign(under_way_.begin(), under_way_.end());
    unsent.assign(queue_.begin(), queue_.end());
    under_way_.clear();
    queue_.clear();
    if (!known.empty() && !refused_.empty()) known = refused_;
    if (closed_) return;
  }
  hooks_.ended(*this, known, std::move(lost), std::move(unsent));
}

// --- the receiver ---

BulkReceiver::BulkReceiver(std::uint64_t number_of_it, std::string sender, std::uint64_t fence,
                           comm::UcxOptions options, Hooks hooks)
    : BulkEnd(number_of_it, kReceiver, std::move(options)),
      sender_(std::move(sender)),
      hooks_(std::move(hooks)),
      fence_(fence) {
  start();
}

BulkReceiver::~BulkReceiver() {
  join();
}

std::string BulkReceiver::carry() {
  channel().set_peer(kSender, sender_);
  hooks_.answer(*this, channel().address(), "");
  if (const auto status = hello(comm::Clock::now() + kOpenLimit); !status.ok()) return status.message;
  comm::Status status = channel().post_recv(kSender, letter_key(1));
  for (std::uint64_t number = 1; status.ok(); ++number) {
    comm::Message message;
    status = channel().wait(kSender, letter_key(number), kNever, &message);
    if (!status.ok()) break;
    // The next one may come while this one is handed on.
    if (status = channel().post_recv(kSender, letter_key(number + 1)); !status.ok()) break;
    Letter letter = unpack(std::move(message));
    if (std::string trouble = await_fence(letter.envelope.after()); !trouble.empty()) return trouble;
    hooks_.arrived(letter);
    status = channel().send(kSender, receipt_key(number), {}, soon());
  }
  return status.message;
}

std::string BulkReceiver::await_fence(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, soon(), [&] { return closed_ || fence_ >= number; }))
    return "what was sent before it did not come";
  return closed_ ? "it is closed" : "";
}

void BulkReceiver::fenced(std::uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    fence_ = std::max(fence_, number);
  }
  changed_.notify_all();
}

void BulkReceiver::ended(const std::string& cause) {
  if (!cause.empty()) hooks_.answer(*this, "", cause);
}

}  // namespace nestor::actors::remote
