#include <algorithm>
#include <utility>

#include <nestor/actors/remote/bulk.h>
#include <nestor/actors/remote/letter.h>
#include <nestor/actors/remote/transfers.h>

namespace nestor::actors::remote {

std::string too_long(const std::string& payload, std::uint64_t bytes) {
  if (bytes <= kLongestPayload) return {};
  return payload + " of " + std::to_string(bytes >> 20) + " MiB " + (payload.ends_with('s') ? "are" : "is") +
         " more than the " + std::to_string(kLongestPayload >> 20) + " MiB that one call can carry between processes";
}

bool Transfers::take(Letter& letter) {
  const std::string& to = letter.envelope.to();
  const std::size_t size = payload_size(letter);
  const bool is_long = size > kPart || (size >= Bulk::kLeast && bulk_ != nullptr && bulk_->wants(to, size));
  if (!is_long && open_.load(std::memory_order_acquire) == 0) return false;
  if (letter.envelope.has_part() || letter.envelope.has_credit()) return false;
  const Key key{to, actor_of(letter.envelope)};
  std::lock_guard lock(mutex_);
  auto found = streams_.find(key);
  if (found == streams_.end()) {
    if (!is_long) return false;
    found = streams_.try_emplace(key).first;
    ++open_;
  }
  Stream& stream = found->second;
  if (letter.envelope.has_cancel() && withdraw(key, stream, letter.envelope.cancel())) {
    pump_or_end(found);
    return true;
  }
  stream.queue.push_back(std::make_shared<Letter>(std::move(letter)));
  if (stream.queue.size() == 1) pump_or_end(found);
  return true;
}

/// A call that is given up before it was begun need not go.
bool Transfers::withdraw(const Key& key, Stream& stream, const wire::Cancel& cancel) {
  const auto given_up = [&](const LetterPtr& letter) {
    return letter->envelope.has_call() && letter->envelope.call().id() == cancel.id();
  };
  const auto waiting = stream.queue.begin() + (stream.begun ? 1 : 0);
  if (const auto found = std::find_if(waiting, stream.queue.end(), given_up); found != stream.queue.end()) {
    stream.queue.erase(found);
    return true;
  }
  const auto found = std::find_if(stream.carried.begin(), stream.carried.end(), given_up);
  if (found == stream.carried.end() || !bulk_->withdraw(key.first, *found)) return false;
  stream.carried.erase(found);
  return true;
}

void Transfers::pump_or_end(Streams::iterator stream) {
  if (pump(stream->first, stream->second)) return;
  streams_.erase(stream);
  --open_;
}

bool Transfers::pump(const Key& key, Stream& stream) {
  while (!stream.queue.empty()) {
    const LetterPtr& current = stream.queue.front();
    const std::size_t size = payload_size(*current);
    if (!stream.begun && bulk_ != nullptr && bulk_->carry(key.first, size, current)) {
      stream.carried.push_back(current);
      stream.queue.pop_front();
      continue;
    }
    if (!stream.carried.empty()) return true;  // its turn comes
    if (!stream.begun) {
      flatten(*current);
      if (size <= kPart) {
        send_(current->envelope);
        stream.queue.pop_front();
        continue;
      }
    } else if (stream.sent == stream.payload.size()) {
      if (stream.under_way > 0) return true;
      stream.payload = {};
      stream.begun = false;
      stream.queue.pop_front();
      continue;
    }
    if (stream.under_way >= kUnderWay) return true;
    if (!send_part(key, stream)) return false;  // its link is gone, and whoever waits for it hears that
  }
  return !stream.carried.empty();
}

bool Transfers::send_part(const Key& key, Stream& stream) {
  wire::Envelope message;
  message.set_to(key.first);
  wire::Part& part = *message.mutable_part();
  if (!stream.begun) {
    wire::Envelope& envelope = stream.queue.front()->envelope;
    stream.begun = true;
    stream.transfer = next_++;
    stream.sent = 0;
    stream.payload = std::move(*payload_of(envelope));
    payload_of(envelope)->clear();
    part.set_envelope(envelope.SerializeAsString());
    part.set_total(stream.payload.size());
  }
  const std::size_t size = std::min(kPart, stream.payload.size() - stream.sent);
  part.set_transfer(stream.transfer);
  part.set_bytes(stream.payload.data() + stream.sent, size);
  stream.sent += size;
  ++stream.under_way;
  return send_(message).empty();
}

void Transfers::credited(const std::string& from, const wire::Credit& credit) {
  std::lock_guard lock(mutex_);
  for (auto stream = streams_.lower_bound({from, ""}); stream != streams_.end() && stream->first.first == from;
       ++stream) {
    Stream& of = stream->second;
    if (!of.begun || of.transfer != credit.transfer() || of.under_way == 0) continue;
    --of.under_way;
    if (!credit.refused().empty()) of.sent = of.payload.size();
    return pump_or_end(stream);
  }
}

// --- what went by a channel ---

Transfers::Streams::iterator Transfers::stream_of(const LetterPtr& letter) {
  const auto stream = streams_.find({letter->envelope.to(), actor_of(letter->envelope)});
  if (stream == streams_.end() || std::erase(stream->second.carried, letter) == 0) return streams_.end();
  return stream;
}

void Transfers::carried(const LetterPtr& letter) {
  std::lock_guard lock(mutex_);
  if (const auto stream = stream_of(letter); stream != streams_.end()) pump_or_end(stream);
}

void Transfers::unsent(const std::vector<LetterPtr>& letters) {
  std::lock_guard lock(mutex_);
  std::vector<Streams::iterator> streams;
  for (auto letter = letters.rbegin(); letter != letters.rend(); ++letter) {
    const auto stream = stream_of(*letter);
    if (stream == streams_.end()) continue;
    stream->second.queue.push_front(*letter);
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
  for (const auto& stream : streams) pump_or_end(stream);
}

std::vector<Transfers::LetterPtr> Transfers::lost(const std::vector<LetterPtr>& letters) {
  std::vector<LetterPtr> missed;
  std::lock_guard lock(mutex_);
  for (const auto& letter : letters) {
    const auto stream = stream_of(letter);
    if (stream == streams_.end()) continue;
    missed.push_back(letter);
    pump_or_end(stream);
  }
  return missed;
}

// --- the receiver ---

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
