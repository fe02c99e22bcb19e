#include <utility>

#include <nestor/comm/key_table.h>

namespace nestor::comm {

namespace {

constexpr std::size_t kInitialSlots = 4 * KeyTable::kRemembered;  // a power of two

}  // namespace

KeyTable::KeyTable() : slots_(kInitialSlots), taken_(kRemembered) {}

void KeyTable::forget_oldest() {
  const std::size_t oldest = (next_taken_ + kRemembered - remembered_) % kRemembered;
  erase(static_cast<std::size_t>(find(taken_[oldest]) - slots_.data()));
  --remembered_;
}

KeyTable::Slot& KeyTable::insert(const Address& address, KeyState state) {
  if (remembered_ == kRemembered) forget_oldest();
  if (2 * (used_ + 1) > slots_.size()) grow();
  std::size_t i = home(address);
  while (slots_[i].state != KeyState::empty) i = (i + 1) & (slots_.size() - 1);
  ++used_;
  last_ = &slots_[i];
  slots_[i].address = address;
  slots_[i].state = state;
  return slots_[i];
}

void KeyTable::take(Slot& slot, Message* out) {
  *out = std::move(slot.message);  // which leaves the slot's empty
  slot.state = KeyState::taken;
  const Address address = slot.address;
  if (remembered_ == kRemembered) forget_oldest();  // several takes since the last insert
  ++remembered_;
  taken_[next_taken_] = address;
  next_taken_ = (next_taken_ + 1) % kRemembered;
}

void KeyTable::erase(std::size_t index) {  // of a taken key: its message is empty
  const std::size_t mask = slots_.size() - 1;
  last_ = nullptr;
  slots_[index].state = KeyState::empty;
  --used_;
  // Close the gap: a later slot of the same run moves up unless that would put it before its home.
  for (std::size_t i = (index + 1) & mask; slots_[i].state != KeyState::empty; i = (i + 1) & mask) {
    const std::size_t distance = (i - home(slots_[i].address)) & mask;
    if (distance >= ((i - index) & mask)) {
      Slot& from = slots_[i];
      slots_[index].address = from.address;
      slots_[index].state = std::exchange(from.state, KeyState::empty);
      slots_[index].message.swap(from.message);
      index = i;
    }
  }
}

void KeyTable::drop_below(std::uint64_t generation, std::vector<Dropped>& dropped) {
  std::vector<Slot> old(slots_.size());
  old.swap(slots_);
  last_ = nullptr;
  std::vector<Address> ring(kRemembered);
  ring.swap(taken_);
  const std::size_t count = std::exchange(remembered_, 0);
  const std::size_t first = (next_taken_ + kRemembered - count) % kRemembered;
  next_taken_ = 0;
  used_ = 0;
  for (std::size_t i = 0; i < count; ++i) {  // in the order they were taken
    const Address& address = ring[(first + i) % kRemembered];
    if (address.key.generation < generation) continue;
    insert(address, KeyState::taken);
    taken_[next_taken_++] = address;
    ++remembered_;
  }
  next_taken_ %= kRemembered;
  for (Slot& slot : old) {
    if (slot.state == KeyState::empty || slot.state == KeyState::taken) continue;
    if (slot.address.key.generation >= generation) {
      insert(slot.address, slot.state).message = std::move(slot.message);
    } else if (slot.state != KeyState::posted) {
      dropped.push_back({slot.address.from, slot.state == KeyState::ready, std::move(slot.message)});
    }
  }
}

void KeyTable::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  last_ = nullptr;
  used_ = 0;
  for (Slot& slot : old) {
    if (slot.state != KeyState::empty) insert(slot.address, slot.state).message = std::move(slot.message);
  }
}

}  // namespace nestor::comm
