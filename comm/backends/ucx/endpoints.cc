#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include <nestor/comm/backends/ucx/endpoints.h>

namespace nestor::comm::ucx {

namespace {

constexpr std::size_t kRetired = 16;
constexpr Clock::duration kCopying = std::chrono::seconds(10), kStill = std::chrono::milliseconds(50);

/// Peer::by_memory
bool by_memory_only(ucp_ep_h endpoint) {
  std::istringstream lines(printed([&](FILE* file) { ucp_ep_print_info(endpoint, file); }));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("lane[") != std::string::npos && line.find("/memory") == std::string::npos) return false;
  }
  return true;
}

}  // namespace

Endpoints::Endpoints(Engine& engine, std::int32_t lane, std::int32_t lanes, std::uint64_t secret,
                     std::uint64_t incarnation)
    : engine_(engine),
      lane_(lane),
      secret_(secret),
      incarnation_(incarnation),
      peers_(static_cast<std::size_t>(lanes)) {
  for (std::size_t i = 0; i < peers_.size(); ++i) peers_[i].lane = static_cast<std::int32_t>(i);
}

Endpoints::~Endpoints() {
  for (Peer& peer : peers_) {
    if (peer.process >= 0) ::close(peer.process);
  }
}

void Endpoints::open(Peer& peer, const EndAddress& address) {
  tags_.push_back({this, &peer, ++peer.epoch});
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;  // without it nothing ever completes and nothing can be forced
  params.err_handler.cb = on_error;
  params.err_handler.arg = &tags_.back();
  if (const ucs_status_t status = ucp_ep_create(engine_.worker(), &params, &peer.endpoint); status != UCS_OK) {
    peer.endpoint = nullptr;
    throw std::runtime_error("ucx: lane " + std::to_string(lane_) + " cannot reach lane " + std::to_string(peer.lane) +
                             ": " + ucs_status_string(status) + " (both ends need a transport in common)");
  }
  peer.state = Peer::State::open;
  peer.by_memory = by_memory_only(peer.endpoint);
  peer.cause.clear();
  peer.failed = false;
  peer.incarnation = address.incarnation;
  peer.under_way = peer.overdraft = 0;
  peer.sent = peer.matched = 0;
  peer.owes_pong = false;
  peer.heard = true;
  peer.pid = address.pid;
  if (address.machine != 0 && address.machine == this_machine() && address.pid != getpid()) {
    // The kernel tells of a death at once, also of one that nobody has waited for; UCX's shared memory does not.
    peer.process = static_cast<int>(syscall(SYS_pidfd_open, address.pid, 0));
    if (peer.process >= 0) engine_.watch_process(peer.process, peer.lane);
    if (peer.process < 0 && errno == ESRCH) {
      peer.failed = true;
      peer.failure = "process " + std::to_string(address.pid) + " is gone";
      engine_.leave_chores();
    }
  }
}

void Endpoints::close(Peer& peer) {
  ++peer.epoch;
  if (peer.process >= 0) ::close(std::exchange(peer.process, -1));
  if (peer.endpoint != nullptr) {
    if (engine_.unfinished() > 0) engine_.memory().give_up();
    retire(std::exchange(peer.endpoint, nullptr), UCP_EP_CLOSE_FLAG_FORCE);
    if (peer.by_memory) abandon_sends(peer);
  }
  if (peer.incarnation != 0) {
    if (peer.retired.size() == kRetired) peer.retired.erase(peer.retired.begin());
    peer.retired.push_back(std::exchange(peer.incarnation, 0));
  }
  peer.under_way = peer.overdraft = 0;
  if (room_wanted) engine_.stir();
}

/// UCX completes the requests of an endpoint closed by force once it has flushed it. Over shared memory it never has
/// when the peer's queue is full and the peer does not read any more. Nothing touches the buffers by then: what was
/// waiting for the queue has been purged, and a peer that still reads them by CMA gets bytes that nobody takes.
void Endpoints::abandon_sends(const Peer& peer) {
  for (SendRecord& record : records_) {
    if (record.state != SendRecord::State::under_way || record.peer != &peer || record.epoch == peer.epoch) continue;
    record.state = SendRecord::State::abandoned;
    record.memory.reset();
    engine_.ended();
  }
}

void Endpoints::retire(ucp_ep_h endpoint, std::uint32_t flags) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = flags;
  void* request = ucp_ep_close_nbx(endpoint, &params);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

void Endpoints::sweep() {
  std::erase_if(closing_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
}

void Endpoints::leave_all(Clock::duration limit) {
  const Clock::time_point end = Clock::now() + limit;
  const auto until = [&](auto done) {
    while (!done() && Clock::now() < end) {
      if (engine_.turn().wanted()) engine_.turn().pass();
      if (engine_.progress() == 0) std::this_thread::yield();
    }
  };
  const auto reachable = [](const Peer& peer) { return peer.endpoint != nullptr && !peer.failed; };
  // What the kernel copies for us goes on, a piece at a time: UCX aborts where its endpoint is closed by force
  // meanwhile.
  const Clock::time_point latest = Clock::now() + kCopying;
  for (auto still = Clock::now() + kStill; engine_.unfinished() > 0 && Clock::now() < std::min(still, latest);)
    if (engine_.progress() != 0) still = Clock::now() + kStill;
  until([&] {
    for (const Peer& peer : peers_) {
      if (reachable(peer) && peer.under_way > 0) return false;
    }
    return true;
  });
  const bool at_rest = engine_.unfinished() == 0;  // otherwise somebody does not move any more: by force, then
  for (Peer& peer : peers_) {
    if (reachable(peer)) note(peer, Note::goodbye);
  }
  for (Peer& peer : peers_) {
    if (reachable(peer) && at_rest) {
      ++peer.epoch;
      retire(std::exchange(peer.endpoint, nullptr), 0);
    }
  }
  const auto closed = [&] {
    sweep();
    return closing_.empty();
  };
  until(closed);
  for (Peer& peer : peers_) {
    if (peer.endpoint != nullptr) close(peer);
  }
  // Requests of endpoints closed by force complete as cancelled within a few rounds.
  const Clock::time_point last = Clock::now() + std::chrono::milliseconds(200);
  while ((!closed() || engine_.unfinished() > 0) && Clock::now() < last) engine_.progress();
  if (!closed() || engine_.unfinished() > 0) engine_.memory().give_up();
}

SendRecord* Endpoints::record() {
  if (free_ == nullptr) {
    records_.emplace_back();
    records_.back().owner = this;
    return &records_.back();
  }
  return std::exchange(free_, free_->next);
}

void Endpoints::take_back(SendRecord* record) {
  record->next = std::exchange(free_, record);
}

bool Endpoints::send(Peer& peer, unsigned id, SendRecord* record, std::size_t header_length, const Buffer* buffer,
                     std::size_t length, std::uint32_t flags) {
  ucp_request_param_t params;
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.flags = flags;
  params.cb.send = on_sent;
  params.user_data = record;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  record->peer = &peer;
  record->epoch = peer.epoch;
  void* request = ucp_am_send_nbx(peer.endpoint, id, record->header, header_length, length > 0 ? buffer->data : nullptr,
                                  length, &params);
  if (request == nullptr) {
    take_back(record);
    return true;
  }
  if (UCS_PTR_IS_ERR(request)) {
    take_back(record);
    if (!peer.failed) {
      peer.failed = true;
      peer.failure = ucs_status_string(UCS_PTR_STATUS(request));
      engine_.leave_chores();
    }
    return false;
  }
  if (length > 0) record->memory = buffer->owner;
  record->state = SendRecord::State::under_way;
  peer.under_way += record->cost;
  engine_.began();
  return true;
}

void Endpoints::note(Peer& peer, Note what, std::uint64_t value) {
  if (peer.endpoint == nullptr || peer.failed) return;
  SendRecord* sent = record();
  const NoteMessage message{kMagic, lane_, secret_, incarnation_, value, what, 0};
  std::memcpy(sent->header, &message, sizeof(message));
  sent->cost = 0;
  send(peer, kNoteId, sent, sizeof(message), nullptr, 0, UCP_AM_SEND_FLAG_EAGER);
}

void Endpoints::on_sent(void* request, ucs_status_t, void* user_data) {
  auto* record = static_cast<SendRecord*>(user_data);
  Endpoints& self = *record->owner;
  ucp_request_free(request);
  if (std::exchange(record->state, SendRecord::State::idle) == SendRecord::State::under_way) self.engine_.ended();
  Peer& peer = *record->peer;
  if (record->epoch == peer.epoch) {
    peer.under_way -= record->cost;
    if (self.room_wanted) self.engine_.stir();
  }
  record->memory.reset();
  self.take_back(record);
}

void Endpoints::on_error(void* arg, ucp_ep_h, ucs_status_t status) {
  const Tag& tag = *static_cast<Tag*>(arg);
  Peer& peer = *tag.peer;
  if (tag.epoch != peer.epoch || peer.failed) return;
  peer.failed = true;
  peer.failure = ucs_status_string(status);
  tag.owner->engine_.leave_chores();
}

}  // namespace nestor::comm::ucx
