#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nestor/comm/channel.h>
#include <nestor/comm/key_table.h>

namespace nestor::comm {

/// The rules of keyed receives that every backend shares: what is posted, what has arrived, which generations are over,
/// and the words for misuse. Not thread-safe: a backend guards it by its own lock.
class Inbox {
 public:
  /// Lane `lane` of `lanes`.
  Inbox(std::int32_t lane, std::int32_t lanes) : lane_(lane), lanes_(lanes) {}

  bool valid(std::int32_t lane) const { return lane >= 0 && lane < lanes_; }
  Status wrong_lane(std::int32_t lane) const;
  Status misuse(std::int32_t peer, const Key& key, const char* what, const char* hint) const;
  Status late(std::int32_t from, const Key& key) const;  ///< a wait's deadline has passed

  bool refused(std::uint64_t generation) const { return generation < accepted_from_; }
  /// Why keys of this generation are refused; ok where they are not.
  Status refusal(std::uint64_t generation) const;

  enum class Arrival : std::uint8_t {
    early,      ///< kept; nobody has posted it yet
    expected,   ///< kept; its receive is posted
    stale,      ///< of a generation that is over: counted; the message is the caller's to destroy
    duplicate,  ///< the key was sent before; the message is untouched
  };
  Arrival deliver(const Address& address, Message& message);
  /// Whether a message of this address would be kept, and how; changes nothing.
  Arrival foresee(const Address& address) {
    if (refused(address.key.generation)) return Arrival::stale;
    const KeyTable::Slot* slot = table_.find_again(address);
    if (slot == nullptr) return Arrival::early;
    return slot->state == KeyState::posted ? Arrival::expected : Arrival::duplicate;
  }
  /// As deliver, of a message that is foreseen as expected or else as early: what is returned is to be filled at once.
  Message& accept(const Address& address, bool expected) {
    if (!expected) return table_.insert(address, KeyState::arrived).message;
    KeyTable::Slot* slot = table_.find_again(address);
    slot->state = KeyState::ready;
    return slot->message;
  }

  /// `arrived`, where given: set to the message if it had arrived already, else to null. Valid until the next call.
  Status post(std::int32_t from, const Key& key, const Message** arrived = nullptr);
  /// ok: the key is posted; `pending` says whether its message is still to come.
  Status check_wait(std::int32_t from, const Key& key, bool* pending);
  bool pending(const Address& address) {
    const KeyTable::Slot* slot = table_.find_again(address);
    return slot != nullptr && slot->state == KeyState::posted;
  }
  /// Of a key that check_wait found posted and that has arrived.
  void take(const Address& address, Message* out);

  /// Refuses keys of generations below `generation` from now on; with a cause they count as aborted. True where
  /// something changed; what had arrived is in `dropped`, and counted.
  bool refuse_below(std::uint64_t generation, const std::string* abort_cause, std::vector<KeyTable::Dropped>& dropped);
  void count_stale(std::uint64_t messages) { received_.stale_dropped += messages; }
  const Counters& received() const { return received_; }  ///< the received and dropped part

 private:
  const std::int32_t lane_, lanes_;
  KeyTable table_;
  std::uint64_t accepted_from_ = 0;  ///< keys of older generations are refused
  std::uint64_t aborted_below_ = 0;  ///< of those, the ones refused because of an abort
  std::string abort_cause_;          ///< of the newest aborted generation
  Counters received_;
};

/// "key (generation 1, step 2, tag 3) from lane 4".
std::string describe(std::int32_t peer, const Key& key, const char* relation);

/// The generation after `generation`, which an abort of it leaves as the first one accepted.
constexpr std::uint64_t after(std::uint64_t generation) {
  return generation + 1 == 0 ? generation : generation + 1;
}

}  // namespace nestor::comm
