#include <algorithm>
#include <cstring>
#include <utility>

#include <nestor/comm/backends/ucx/flow.h>
#include <nestor/comm/backends/ucx/intake.h>

namespace nestor::comm::ucx {

namespace {

constexpr std::size_t kSpareBuffers = 4;  // storage for more is not kept

std::size_t cost_of_all(const Message& message) {
  std::size_t cost = message.empty() ? cost_of(0) : 0;
  for (const Buffer& buffer : message) cost += cost_of(buffer.none() ? 0 : buffer.descriptor.bytes());
  return cost;
}

void set_handler(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t callback, void* self) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = callback;
  param.arg = self;
  ucp_worker_set_am_recv_handler(worker, &param);
}

}  // namespace

Intake::Intake(Engine& engine, Endpoints& endpoints, Inbox& inbox, std::int32_t lane, std::uint64_t secret,
               std::size_t window, std::size_t keep)
    : engine_(engine),
      endpoints_(endpoints),
      inbox_(inbox),
      lane_(lane),
      secret_(secret),
      window_(window),
      pool_(std::make_shared<BlockPool>(keep)) {
  set_handler(engine.worker(), kDataId, on_data, this);
  set_handler(engine.worker(), kNoteId, on_note, this);
}

Intake::~Intake() {
  set_handler(engine_.worker(), kDataId, nullptr, nullptr);
  set_handler(engine_.worker(), kNoteId, nullptr, nullptr);
}

// --- arrivals: UCX's callbacks -----------------------------------------------------------------------------------

ucs_status_t Intake::on_data(void* arg, const void* header, std::size_t header_length, void* data, std::size_t length,
                             const ucp_am_recv_param_t* param) {
  auto& self = *static_cast<Intake*>(arg);
  try {  // nothing is thrown through UCX
    return self.arrive(header, header_length, data, length, param->recv_attr);
  } catch (const std::exception&) {
    ++self.malformed_;
    return UCS_OK;
  }
}

Peer* Intake::sender(std::uint64_t secret, std::int32_t from, std::uint64_t incarnation) {
  if (secret != secret_) {
    ++foreign_;
    return nullptr;
  }
  if (!inbox_.valid(from) || from == lane_ || incarnation == 0) {
    ++malformed_;
    return nullptr;
  }
  Peer& peer = endpoints_[from];
  if (incarnation != peer.heard_from) {
    // A peer may be known to others, and send, before set_peer tells us of its new address. Only those are refused that
    // we know to be over.
    if (std::find(peer.retired.begin(), peer.retired.end(), incarnation) != peer.retired.end()) {
      inbox_.count_stale(1);
      return nullptr;
    }
    peer.heard_from = incarnation;
    peer.taken = peer.told = 0;
  }
  peer.heard = true;
  return &peer;
}

ucs_status_t Intake::arrive(const void* header, std::size_t header_length, void* data, std::size_t length,
                            std::uint64_t attributes) {
  const bool offered = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  Envelope envelope;
  if (!decode(header, header_length, length, &envelope)) {
    ++malformed_;
    return UCS_OK;  // what was offered is answered by UCX: the sender's request completes
  }
  Peer* peer = sender(envelope.secret, envelope.from, envelope.incarnation);
  if (peer == nullptr) return UCS_OK;
  const Address address{{envelope.generation, envelope.step, envelope.tag}, envelope.from};
  const std::size_t cost = cost_of(length);

  const Inbox::Arrival arrival = inbox_.foresee(address);
  if (arrival == Inbox::Arrival::stale || arrival == Inbox::Arrival::duplicate) {
    if (arrival == Inbox::Arrival::duplicate) {
      ++malformed_;
    } else if (envelope.part == 0) {
      inbox_.count_stale(1);
    }
    matched(*peer, cost);
    return UCS_OK;
  }
  const bool expected = arrival == Inbox::Arrival::expected;
  if (envelope.parts <= 1 && !offered) {
    const bool lend = expected && length >= kLendBytes && (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0 &&
                      engine_.memory().may_lend() && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
    if (envelope.parts == 1) {
      if (spare_.empty()) spare_.resize(1);
      if (lend) {
        describe(envelope, header, &spare_[0].descriptor);
        spare_[0].data = data;
        spare_[0].owner = engine_.memory().lend(data);
      } else {
        receive(envelope, header, data, length, &spare_[0]);
      }
      inbox_.accept(address, expected).swap(spare_);
    } else {
      inbox_.accept(address, expected);
    }
    if (!expected) {
      peer->unmatched += cost;
    } else {
      if (awaited_ != nullptr && *awaited_ == address) engine_.stir();
      matched(*peer, cost);
    }
    return lend ? UCS_INPROGRESS : UCS_OK;
  }

  Assembly* building = assembly(address, envelope.parts);
  if (building == nullptr || building->filled[envelope.part]) {
    ++malformed_;
    matched(*peer, cost);
    return UCS_OK;
  }
  building->posted = expected;
  building->filled[envelope.part] = true;
  if (!offered) {
    if (building->posted) {
      matched(*peer, cost);
    } else {
      building->held += cost;
      peer->unmatched += cost;
    }
    receive(envelope, header, data, length, &building->message[envelope.part]);
    filled(*building);
    return UCS_OK;
  }
  describe(envelope, header, &building->message[envelope.part].descriptor);
  std::list<Pull>& list = building->posted ? peer->wanted : peer->offered;
  Pull& pull = list.emplace_back();
  pull.intake = this;
  pull.assembly = building;
  pull.from = envelope.from;
  pull.state = building->posted ? Pull::State::wanted : Pull::State::offered;
  pull.part = envelope.part;
  pull.offer = data;
  pull.length = length;
  pull.self = std::prev(list.end());
  building->pulls.push_back(&pull);
  engine_.leave_chores();
  if (awaited_ != nullptr && awaited_->from == envelope.from) engine_.stir();  // it may have to say that it starves
  return UCS_INPROGRESS;
}

ucs_status_t Intake::on_note(void* arg, const void* header, std::size_t header_length, void*, std::size_t,
                             const ucp_am_recv_param_t*) {
  auto& self = *static_cast<Intake*>(arg);
  NoteMessage message;
  if (header_length != sizeof(message)) {
    ++self.malformed_;
    return UCS_OK;
  }
  std::memcpy(&message, header, sizeof(message));
  if (message.magic != kMagic || message.note > Note::goodbye) {
    ++self.malformed_;
    return UCS_OK;
  }
  Peer* peer = self.sender(message.secret, message.from, message.incarnation);
  if (peer == nullptr) return UCS_OK;
  switch (message.note) {
    case Note::ping:
      peer->owes_pong = true;
      self.engine_.leave_chores();
      break;
    case Note::pong:
      break;
    case Note::taken:
      peer->matched = std::clamp(message.value, peer->matched, peer->sent);
      break;
    case Note::starved:
      peer->overdraft += self.window_;
      if (self.endpoints_.room_wanted) self.engine_.stir();
      break;
    case Note::goodbye:
      if (message.incarnation == peer->incarnation && !peer->failed) {
        peer->failed = true;
        peer->failure = "it has left";
        self.engine_.leave_chores();
      }
      break;
  }
  return UCS_OK;
}

// --- messages ----------------------------------------------------------------------------------------------------

void Intake::prepare() {
  if (spare_.empty()) spare_.resize(1);
  if (spare_block_ == nullptr) spare_block_ = pool_->allocate(kLendBytes);
}

void Intake::reuse(Message& message) {
  message.clear();
  if (spare_.capacity() == 0 && message.capacity() <= kSpareBuffers) spare_.swap(message);
}

void Intake::receive(const Envelope& envelope, const void* header, const void* data, std::size_t length, Buffer* out) {
  describe(envelope, header, &out->descriptor);
  out->owner = nullptr;
  if (envelope.none != 0) return;
  const bool spare = length <= kLendBytes && spare_block_ != nullptr;
  std::shared_ptr<void> block = spare ? std::move(spare_block_) : pool_->allocate(length);
  if (length > 0) std::memcpy(block.get(), data, length);
  out->data = block.get();
  out->owner = std::move(block);
}

Assembly* Intake::assembly(const Address& address, std::size_t parts) {
  std::unique_ptr<Assembly>& slot = assemblies_[address];
  if (slot == nullptr) {
    slot = std::make_unique<Assembly>();
    slot->address = address;
    slot->message.resize(parts);
    slot->filled.resize(parts);
    slot->missing = parts;
  }
  return slot->message.size() == parts ? slot.get() : nullptr;
}

void Intake::filled(Assembly& complete) {
  if (--complete.missing > 0) return;
  const Address address = complete.address;
  Message message = std::move(complete.message);
  assemblies_.erase(address);
  if (inbox_.deliver(address, message) == Inbox::Arrival::expected && awaited_ != nullptr && *awaited_ == address) {
    engine_.stir();
  }
}

void Intake::matched(Peer& peer, std::size_t cost) {
  peer.taken += cost;
  if (peer.taken - peer.told >= window_ / 4 && !peer.owes_taken) {
    peer.owes_taken = true;
    engine_.leave_chores();
  }
}

Status Intake::post(std::int32_t from, const Key& key) {
  const Message* arrived = nullptr;
  if (Status status = inbox_.post(from, key, &arrived); !status.ok()) return status;
  Peer& peer = endpoints_[from];
  if (arrived != nullptr) {
    if (from == lane_) return {};
    const std::size_t cost = cost_of_all(*arrived);
    peer.unmatched -= std::min(cost, peer.unmatched);
    matched(peer, cost);
    if (!peer.offered.empty()) engine_.leave_chores();
    return {};
  }
  if (assemblies_.empty()) return {};
  const auto found = assemblies_.find({key, from});
  if (found == assemblies_.end()) return {};
  Assembly& posted = *found->second;
  posted.posted = true;
  peer.unmatched -= std::min(posted.held, peer.unmatched);
  matched(peer, std::exchange(posted.held, 0));
  for (Pull* pull : posted.pulls) {
    if (pull->state != Pull::State::offered) continue;
    pull->state = Pull::State::wanted;
    peer.wanted.splice(peer.wanted.end(), peer.offered, pull->self);
  }
  engine_.leave_chores();
  return {};
}

void Intake::drop_below(std::uint64_t generation, const std::vector<KeyTable::Dropped>& dropped) {
  for (const KeyTable::Dropped& message : dropped) {
    if (message.posted || message.from == lane_) continue;  // was matched when it was posted
    Peer& peer = endpoints_[message.from];
    const std::size_t cost = cost_of_all(message.message);
    peer.unmatched -= std::min(cost, peer.unmatched);
    matched(peer, cost);
  }
  for (auto it = assemblies_.begin(); it != assemblies_.end();) {
    if (it->first.key.generation >= generation) {
      ++it;
      continue;
    }
    inbox_.count_stale(1);
    abandon(*it->second, endpoints_[it->first.from]);
    it = assemblies_.erase(it);
  }
}

}  // namespace nestor::comm::ucx
