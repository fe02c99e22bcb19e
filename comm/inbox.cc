#include <utility>

#include <nestor/comm/inbox.h>

namespace nestor::comm {

std::string describe(std::int32_t peer, const Key& key, const char* relation) {
  return "key (generation " + std::to_string(key.generation) + ", step " + std::to_string(key.step) + ", tag " +
         std::to_string(key.tag) + ") " + relation + " lane " + std::to_string(peer);
}

Status Inbox::wrong_lane(std::int32_t lane) const {
  return {Code::misuse, "lane " + std::to_string(lane_) + ": no lane " + std::to_string(lane) + " (lanes are 0 to " +
                            std::to_string(lanes_ - 1) + ")"};
}

Status Inbox::misuse(std::int32_t peer, const Key& key, const char* what, const char* hint) const {
  return {Code::misuse,
          "lane " + std::to_string(lane_) + ": " + describe(peer, key, "of") + " " + what + " (" + hint + ")"};
}

Status Inbox::late(std::int32_t from, const Key& key) const {
  return {Code::deadline, "lane " + std::to_string(lane_) + ": " + describe(from, key, "from") +
                              " did not arrive in time (its receive stays posted)"};
}

Status Inbox::refusal(std::uint64_t generation) const {
  if (!refused(generation)) return {};
  if (generation < aborted_below_) return {Code::aborted, abort_cause_};
  return {Code::stale, "lane " + std::to_string(lane_) + ": generation " + std::to_string(generation) +
                           " is over (the channel is at " + std::to_string(accepted_from_) + ")"};
}

Inbox::Arrival Inbox::deliver(const Address& address, Message& message) {
  if (refused(address.key.generation)) {  // the receiver has moved on; the sender will hear of it
    ++received_.stale_dropped;
    return Arrival::stale;
  }
  const Arrival arrival = foresee(address);
  if (arrival == Arrival::duplicate) return arrival;
  accept(address, arrival == Arrival::expected) = std::move(message);
  return arrival;
}

Status Inbox::post(std::int32_t from, const Key& key, const Message** arrived) {
  if (arrived != nullptr) *arrived = nullptr;
  if (!valid(from)) return wrong_lane(from);
  if (refused(key.generation)) return refusal(key.generation);
  const Address address{key, from};
  KeyTable::Slot* slot = table_.find_again(address);
  if (slot == nullptr) {
    table_.insert(address, KeyState::posted);
    return {};
  }
  if (slot->state == KeyState::taken) {
    return misuse(from, key, "was received before", "receive each key once; keep the message if it is needed twice");
  }
  if (slot->state != KeyState::arrived) {
    return misuse(from, key, "was posted before", "post each receive once, then wait for it");
  }
  slot->state = KeyState::ready;
  if (arrived != nullptr) *arrived = &slot->message;
  return {};
}

Status Inbox::check_wait(std::int32_t from, const Key& key, bool* pending) {
  if (!valid(from)) return wrong_lane(from);
  if (refused(key.generation)) return refusal(key.generation);
  const KeyTable::Slot* slot = table_.find_again({key, from});
  if (slot == nullptr || slot->state == KeyState::arrived) {
    return misuse(from, key, "is waited for without a posted receive", "call post_recv first");
  }
  if (slot->state == KeyState::taken) {
    return misuse(from, key, "was received before", "receive each key once; keep the message if it is needed twice");
  }
  *pending = slot->state == KeyState::posted;
  return {};
}

void Inbox::take(const Address& address, Message* out) {
  table_.take(*table_.find_again(address), out);
  ++received_.received_messages;
  received_.received_bytes += bytes(*out);
}

bool Inbox::refuse_below(std::uint64_t generation, const std::string* abort_cause,
                         std::vector<KeyTable::Dropped>& dropped) {
  if (abort_cause != nullptr && generation > aborted_below_) {
    aborted_below_ = generation;
    abort_cause_ = *abort_cause;
  }
  if (generation <= accepted_from_) return false;
  accepted_from_ = generation;
  const std::size_t before = dropped.size();
  table_.drop_below(generation, dropped);
  received_.stale_dropped += dropped.size() - before;
  return true;
}

}  // namespace nestor::comm
