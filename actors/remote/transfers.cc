#include <algorithm>

#include <envelope.pb.h>

#include <nestor/actors/remote/transfers.h>

namespace nestor::actors::remote {
namespace {

/// The part of an envelope that may be long; null where it has none.
std::string* payload_of(wire::Envelope& envelope) {
  switch (envelope.body_case()) {
    case wire::Envelope::kCall:
      return envelope.mutable_call()->mutable_arguments();
    case wire::Envelope::kReply:
      return envelope.mutable_reply()->mutable_result();
    case wire::Envelope::kSpawn:
      return envelope.mutable_spawn()->mutable_arguments();
    default:
      return nullptr;
  }
}

const std::string& actor_of(const wire::Envelope& envelope) {
  static const std::string none;
  switch (envelope.body_case()) {
    case wire::Envelope::kCall:
      return envelope.call().actor();
    case wire::Envelope::kReply:
      return envelope.reply().actor();
    case wire::Envelope::kDown:
      return envelope.down().actor();
    case wire::Envelope::kEnd:
      return envelope.end().actor();
    default:
      return none;
  }
}

}  // namespace

std::string too_long(const std::string& payload, std::uint64_t bytes) {
  if (bytes <= kLongestPayload) return {};
  return payload + " of " + std::to_string(bytes >> 20) + " MiB " + (payload.ends_with('s') ? "are" : "is") +
         " more than the " + std::to_string(kLongestPayload >> 20) + " MiB that one call can carry between processes";
}

bool Transfers::take(wire::Envelope& envelope) {
  const std::string* payload = payload_of(envelope);
  const bool is_long = payload != nullptr && payload->size() > kPart;
  if (!is_long && open_.load(std::memory_order_acquire) == 0) return false;
  if (envelope.has_part() || envelope.has_credit()) return false;
  Key key{envelope.to(), actor_of(envelope)};
  std::lock_guard lock(mutex_);
  auto found = streams_.find(key);
  if (found == streams_.end()) {
    if (!is_long) return false;
    found = streams_.try_emplace(key).first;
    ++open_;
  }
  found->second.queue.push_back(std::make_shared<wire::Envelope>(std::move(envelope)));
  if (found->second.queue.size() == 1 && !pump(key, found->second)) {
    streams_.erase(found);
    --open_;
  }
  return true;
}

bool Transfers::pump(const Key& key, Stream& stream) {
  while (!stream.queue.empty()) {
    wire::Envelope& current = *stream.queue.front();
    std::string* payload = payload_of(current);
    if (!stream.begun && (payload == nullptr || payload->size() <= kPart)) {
      send_(current);
      stream.queue.pop_front();
      continue;
    }
    wire::Envelope message;
    message.set_to(key.first);
    wire::Part& part = *message.mutable_part();
    if (!stream.begun) {
      stream.begun = true;
      stream.transfer = next_++;
      stream.sent = 0;
      stream.payload = std::move(*payload);
      payload->clear();
      part.set_envelope(current.SerializeAsString());
      part.set_total(stream.payload.size());
    }
    if (stream.sent == stream.payload.size()) {
      if (stream.under_way > 0) return true;
      stream.payload = {};
      stream.begun = false;
      stream.queue.pop_front();
      continue;
    }
    if (stream.under_way >= kUnderWay) return true;
    const std::size_t size = std::min(kPart, stream.payload.size() - stream.sent);
    part.set_transfer(stream.transfer);
    part.set_bytes(stream.payload.data() + stream.sent, size);
    stream.sent += size;
    ++stream.under_way;
    if (!send_(message).empty()) return false;  // its link is gone, and whoever waits for it hears that
  }
  return false;
}

void Transfers::credited(const std::string& from, const wire::Credit& credit) {
  std::lock_guard lock(mutex_);
  for (auto stream = streams_.lower_bound({from, ""}); stream != streams_.end() && stream->first.first == from;
       ++stream) {
    if (!stream->second.begun || stream->second.transfer != credit.transfer()) continue;
    --stream->second.under_way;
    if (!credit.refused().empty()) stream->second.sent = stream->second.payload.size();
    if (!pump(stream->first, stream->second)) {
      streams_.erase(stream);
      --open_;
    }
    return;
  }
}

bool Transfers::arrived(const wire::Envelope& message, wire::Envelope* whole) {
  const wire::Part& part = message.part();
  wire::Envelope answer;
  answer.set_to(message.from());
  answer.mutable_credit()->set_transfer(part.transfer());
  bool complete = false;
  {
    std::lock_guard lock(mutex_);
    const std::pair key{message.from(), part.transfer()};
    auto found = inbound_.find(key);
    if (found == inbound_.end() && !part.envelope().empty()) {
      found = inbound_.try_emplace(key).first;
      found->second.envelope = part.envelope();
      found->second.total = part.total();
      if (part.total() <= kLongestPayload) found->second.payload.reserve(part.total());
    }
    if (found == inbound_.end()) return false;  // of one that was refused
    Inbound& inbound = found->second;
    if (inbound.total > kLongestPayload || part.bytes().size() > inbound.total - inbound.payload.size()) {
      answer.mutable_credit()->set_refused("it is too long");
      inbound_.erase(found);
    } else {
      inbound.payload += part.bytes();
      complete = inbound.payload.size() == inbound.total;
      if (complete) {
        complete = whole->ParseFromString(inbound.envelope);
        if (std::string* payload = payload_of(*whole); complete && payload != nullptr)
          *payload = std::move(inbound.payload);
        inbound_.erase(found);
      }
    }
  }
  send_(answer);
  return complete;
}

void Transfers::forget(const std::string& peer) {
  std::lock_guard lock(mutex_);
  open_ -= std::erase_if(streams_, [&](const auto& entry) { return peer.empty() || entry.first.first == peer; });
  std::erase_if(inbound_, [&](const auto& entry) { return peer.empty() || entry.first.first == peer; });
}

}  // namespace nestor::actors::remote
