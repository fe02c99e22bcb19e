#include <algorithm>
#include <stdexcept>
#include <utility>

#include <envelope.pb.h>
#include <sys/random.h>

#include <nestor/actors/remote/bulk.h>
#include <nestor/actors/remote/direct.h>

namespace nestor::actors::remote {

std::shared_ptr<BulkSender> Bulk::sender(const std::string& to, std::size_t bytes) {
  if (!options_ || bytes < kLeast || !is_direct(to)) return nullptr;
  std::vector<std::shared_ptr<BulkEnd>> gone;  // destroyed after the lock is released
  std::lock_guard lock(mutex_);
  if (stopped_) return nullptr;
  Route& route = routes_[to];
  if (route.closed) return nullptr;
  if (!route.sender) {
    gone = finished();
    const auto open = std::count_if(routes_.begin(), routes_.end(), [](const auto& r) { return r.second.sender; });
    std::uint64_t secret = 0;
    if (static_cast<std::size_t>(open) + ending_.size() >= kSenders ||
        ::getrandom(&secret, sizeof secret, 0) != sizeof secret)
      return nullptr;
    BulkSender::Hooks hooks;
    hooks.offer = [this, to, secret](BulkSender& sender, const std::string& address) {
      wire::Envelope envelope;
      envelope.set_to(to);
      envelope.mutable_offer()->set_number(sender.number);
      envelope.mutable_offer()->set_secret(secret);
      envelope.mutable_offer()->set_address(address);
      if (const std::string trouble = hooks_.send(envelope); !trouble.empty()) throw std::runtime_error(trouble);
    };
    hooks.sent_by_link = [this, to] { return hooks_.sent_by_link(to); };
    hooks.fence = [this, to] {
      const std::uint64_t number = next_fence_++;
      wire::Envelope envelope;
      envelope.set_to(to);
      envelope.mutable_fence()->set_number(number);
      static_cast<void>(hooks_.send(envelope));  // where the link is gone, so is the letter
      return number;
    };
    hooks.carried = hooks_.carried;
    hooks.ended = [this, to](BulkSender& sender, const std::string& cause, const std::vector<LetterPtr>& lost,
                             const std::vector<LetterPtr>& unsent) {
      ended(to, sender, cause);
      if (!lost.empty()) hooks_.lost(lost, cause);
      if (!unsent.empty()) hooks_.unsent(unsent);
    };
    route.sender = std::make_shared<BulkSender>(next_++, options(secret), std::move(hooks), idle_);
  }
  return bytes > kWaits || route.sender->ready() ? route.sender : nullptr;
}

bool Bulk::carry(const std::string& to, std::size_t bytes, const LetterPtr& letter) {
  const auto taker = sender(to, bytes);
  if (!taker || !taker->send(letter)) return false;
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

bool Bulk::withdraw(const std::string& to, const LetterPtr& letter) {
  std::shared_ptr<BulkSender> taker;
  {
    std::lock_guard lock(mutex_);
    if (const auto route = routes_.find(to); route != routes_.end()) taker = route->second.sender;
  }
  return taker && taker->withdraw(letter);
}

/// In the sender's thread.
void Bulk::ended(const std::string& to, const BulkSender& sender, const std::string& cause) {
  {
    std::lock_guard lock(mutex_);
    const auto route = routes_.find(to);
    if (route == routes_.end() || route->second.sender.get() != &sender) return;
    auto end = std::move(route->second.sender);
    route->second.sender = nullptr;
    route->second.closed = !cause.empty();
    if (cause.empty()) {
      ending_.push_back(std::move(end));  // it says goodbye
    } else {
      bury(std::move(end));
    }
  }
  if (cause.empty() && hooks_.idle) hooks_.idle();
  if (!cause.empty()) say_once("long arguments and results travel by the control link: " + cause);
}

void Bulk::answer(const std::string& to, std::uint64_t number, const std::string& address, const std::string& refused) {
  wire::Envelope envelope;
  envelope.set_to(to);
  envelope.mutable_answer()->set_number(number);
  envelope.mutable_answer()->set_address(address);
  envelope.mutable_answer()->set_refused(refused);
  static_cast<void>(hooks_.send(envelope));  // where the link is gone, so is who waits for it
}

void Bulk::offered(const std::string& from, const wire::Offer& offer) {
  if (!is_direct(from)) return;
  std::vector<std::shared_ptr<BulkEnd>> gone;
  std::string refused;
  {
    std::lock_guard lock(mutex_);
    gone = finished();
    auto& receiver = receivers_[from];
    if (receiver) bury(std::move(receiver));
    if (!options_) {
      refused = "the other process has no UCX";
    } else if (stopped_ || receivers_.size() + ending_.size() > kReceivers) {
      refused = "the other process has too many channels";
    } else {
      BulkReceiver::Hooks hooks;
      hooks.answer = [this, from](BulkReceiver& end, const std::string& address, const std::string& why) {
        answer(from, end.number, address, why);
      };
      hooks.arrived = [this, from](Letter& letter) { hooks_.arrived(letter, from); };
      receiver = std::make_shared<BulkReceiver>(offer.number(), offer.address(), fences_[from], options(offer.secret()),
                                                std::move(hooks));
    }
    if (!receiver) receivers_.erase(from);
  }
  if (!refused.empty()) answer(from, offer.number(), "", refused);
}

void Bulk::answered(const std::string& from, const wire::Answer& answer) {
  std::shared_ptr<BulkSender> sender;
  {
    std::lock_guard lock(mutex_);
    if (const auto route = routes_.find(from); route != routes_.end()) sender = route->second.sender;
  }
  if (sender && sender->number == answer.number()) sender->answered(answer.address(), answer.refused());
}

void Bulk::fenced(const std::string& from, std::uint64_t number) {
  std::shared_ptr<BulkReceiver> receiver;
  {
    std::lock_guard lock(mutex_);
    if (!is_direct(from)) return;
    fences_[from] = number;
    if (const auto found = receivers_.find(from); found != receivers_.end()) receiver = found->second;
  }
  if (receiver) receiver->fenced(number);
}

void Bulk::forget(const std::string& peer) {
  std::vector<std::shared_ptr<BulkEnd>> gone;
  std::lock_guard lock(mutex_);
  gone = finished();
  std::erase_if(routes_, [&](auto& entry) {
    if (!peer.empty() && entry.first != peer) return false;
    if (entry.second.sender) bury(std::move(entry.second.sender));
    return true;
  });
  std::erase_if(fences_, [&](const auto& entry) { return peer.empty() || entry.first == peer; });
  std::erase_if(receivers_, [&](auto& entry) {
    if (!peer.empty() && entry.first != peer) return false;
    bury(std::move(entry.second));
    return true;
  });
}

void Bulk::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  forget("");
  std::vector<std::shared_ptr<BulkEnd>> ending;
  {
    std::lock_guard lock(mutex_);
    ending.swap(ending_);
  }
  for (const auto& end : ending) end->join();
}

comm::UcxOptions Bulk::options(std::uint64_t secret) const {
  comm::UcxOptions options = *options_;
  options.secret = secret;
  options.keep = kKeptMemory;
  return options;
}

void Bulk::bury(std::shared_ptr<BulkEnd> end) {
  end->close("the link is gone");
  ending_.push_back(std::move(end));
}

std::vector<std::shared_ptr<BulkEnd>> Bulk::finished() {
  std::vector<std::shared_ptr<BulkEnd>> done;
  std::erase_if(ending_, [&](auto& end) {
    if (!end->finished()) return false;
    done.push_back(std::move(end));
    return true;
  });
  return done;
}

void Bulk::say_once(const std::string& text) {
  if (hooks_.notice && !said_.exchange(true)) hooks_.notice(text);
}

}  // namespace nestor::actors::remote
