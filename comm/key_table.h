#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <nestor/comm/channel.h>

namespace nestor::comm {

/// Where a message belongs: the lane it comes from and its key.
struct Address {
  Key key;
  std::int32_t from = -1;
  friend bool operator==(const Address&, const Address&) = default;
};

/// What a lane's end knows of a key.
enum class KeyState : std::uint8_t {
  empty,    ///< no such key (a free slot)
  posted,   ///< announced, not yet arrived
  arrived,  ///< arrived, not yet announced
  ready,    ///< announced and arrived
  taken,    ///< handed out; remembered for a while so that a second use is reported
};

/// Open addressing with linear probing and backward-shift deletion: no allocation once it has grown to the number of
/// keys alive at once. Remembers the last `kRemembered` taken keys. Not thread-safe.
class KeyTable {
 public:
  static constexpr std::size_t kRemembered = 1024;

  struct Slot {
    Address address;
    KeyState state = KeyState::empty;
    Message message;
  };

  KeyTable();
  /// The slot of a key, or null. Valid until the next insert, take or drop.
  Slot* find(const Address& address) {
    for (std::size_t i = home(address);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.state == KeyState::empty) return nullptr;
      if (slot.address == address) return &slot;
    }
  }
  /// As find, at once if it is the slot that was found last.
  Slot* find_again(const Address& address) {
    if (last_ != nullptr && last_->address == address && last_->state != KeyState::empty) return last_;
    return last_ = find(address);
  }
  /// The slot of a key that is not in the table, in state `state`.
  Slot& insert(const Address& address, KeyState state);
  /// Moves the message out of a slot and remembers its key as taken. The oldest key is forgotten by the next insert,
  /// not here: a lane that waits wants its message at once.
  void take(Slot& slot, Message* out);
  /// What had arrived of a generation that is over. `posted`: its receive had been announced.
  struct Dropped {
    std::int32_t from = -1;
    bool posted = false;
    Message message;
  };
  /// Drops every key of a generation below `generation`; what had arrived is moved to `dropped`, for the caller to
  /// destroy where no lock is held.
  void drop_below(std::uint64_t generation, std::vector<Dropped>& dropped);
  /// For other tables keyed alike.
  static std::uint64_t hash(const Address& address) {  // a product of 128 bits, folded, as wyhash does (Wang Yi, 2019)
    const std::uint64_t left = address.key.tag ^ (0x9e3779b97f4a7c15ULL * static_cast<std::uint32_t>(address.from + 1));
    const std::uint64_t right = address.key.step ^ (address.key.generation << 32) ^ 0xd6e8feb86659fd93ULL;
    const unsigned __int128 product = static_cast<unsigned __int128>(left ^ 0x2545f4914f6cdd1dULL) * right;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  /// Keys posted or arrived and not yet taken.
  std::size_t open() const { return used_ - remembered_; }

 private:
  std::size_t home(const Address& address) const {
    return static_cast<std::size_t>(hash(address)) & (slots_.size() - 1);
  }
  void erase(std::size_t index);
  void forget_oldest();
  void grow();

  std::vector<Slot> slots_;
  Slot* last_ = nullptr;        ///< null once slots have moved
  std::vector<Address> taken_;  ///< ring of the remembered keys
  std::size_t next_taken_ = 0;
  std::size_t used_ = 0;
  std::size_t remembered_ = 0;
};

}  // namespace nestor::comm
