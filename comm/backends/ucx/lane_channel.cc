#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <unistd.h>

#include <nestor/comm/backends/ucx/flow.h>
#include <nestor/comm/backends/ucx/lane_channel.h>

namespace nestor::comm::ucx {

namespace {

constexpr Clock::duration kLinger = std::chrono::seconds(1);  // for what was sent to leave when an end is closed

std::uint64_t new_incarnation() {
  std::random_device random;
  std::uint64_t value = 0;
  while (value == 0) value = (static_cast<std::uint64_t>(random()) << 32) | random();
  return value;
}

}  // namespace

LaneChannel::LaneChannel(std::int32_t lane, std::int32_t lanes, const UcxOptions& options,
                         std::shared_ptr<Context> context)
    : lane_(lane),
      options_(options),
      incarnation_(new_incarnation()),
      engine_(std::move(context), *this, std::max<Clock::duration>(options.stall / 4, std::chrono::milliseconds(1))),
      inbox_(lane, lanes),
      endpoints_(engine_, lane, lanes, options.secret, incarnation_),
      intake_(engine_, endpoints_, inbox_, lane, options.secret, options.window,
              options.keep > 0 ? options.keep : 2 * options.window) {
  ucp_address_t* worker = nullptr;
  std::size_t length = 0;
  if (const ucs_status_t status = ucp_worker_get_address(engine_.worker(), &worker, &length); status != UCS_OK) {
    throw std::runtime_error(std::string("ucx: the worker has no address: ") + ucs_status_string(status));
  }
  EndAddress own{lane, incarnation_, getpid(), this_machine(), {}};
  own.worker.assign(reinterpret_cast<const char*>(worker), length);
  ucp_worker_release_address(engine_.worker(), worker);
  address_ = encode(own);
  engine_.start();
}

LaneChannel::~LaneChannel() {
  engine_.stop();
  std::lock_guard turn(engine_.turn());
  for (Peer& peer : endpoints_.all()) {
    if (peer.state == Peer::State::open) intake_.forget(peer);
  }
  endpoints_.leave_all(std::min<Clock::duration>(kLinger, options_.stall));
}

// --- the lane's own thread ---------------------------------------------------------------------------------------

Status LaneChannel::check(const Message& message) const {
  const auto refused = [&](const std::string& why) {
    return Status{Code::misuse, "lane " + std::to_string(lane_) + ": a message " + why};
  };
  if (message.size() > kMaxParts) {
    return refused("of " + std::to_string(message.size()) + " buffers (at most 65535: send several)");
  }
  for (const Buffer& buffer : message) {
    if (buffer.descriptor.shape.size() > kMaxRank) {
      return refused("with a shape of " + std::to_string(buffer.descriptor.shape.size()) +
                     " dimensions (at most 16: flatten it)");
    }
    if (buffer.descriptor.device.kind != DeviceKind::cpu) {
      return refused("in a GPU's memory (copy it to the host first)");
    }
    if (buffer.readable) buffer.readable->wait();
  }
  return {};
}

Status LaneChannel::gone(const Peer& peer) const {
  return {Code::peer_lost, "lane " + std::to_string(lane_) + ": lane " + std::to_string(peer.lane) +
                               (peer.pid > 0 ? " (process " + std::to_string(peer.pid) + ")" : std::string()) +
                               " is lost: " + peer.cause};
}

Status LaneChannel::send(std::int32_t to, const Key& key, Message message, Deadline deadline) {
  if (!inbox_.valid(to)) return inbox_.wrong_lane(to);
  if (Status status = check(message); !status.ok()) return status;
  const Engine::Call call(engine_);
  if (inbox_.refused(key.generation)) return inbox_.refusal(key.generation);
  const Address sent{key, to};
  Address& remembered = sent_keys_.place(sent);
  if (remembered == sent) {
    return inbox_.misuse(to, key, "was sent before", "send each key once; give a repeated step a new generation");
  }
  const std::uint64_t size = bytes(message);
  if (to == lane_) {
    if (Status status = send_to_self(key, message); !status.ok()) return status;
  } else {
    Peer& peer = endpoints_[to];
    if (peer.state == Peer::State::unknown) {
      return {Code::misuse, "lane " + std::to_string(lane_) + ": lane " + std::to_string(to) +
                                " has no address (call set_peer first)"};
    }
    // A lane that only sends would otherwise hear of nothing, a loss of the peer included.
    if (peer.under_way > 0 || peer.failed) engine_.progress();
    const std::size_t cost = size + message.size() * kMessageCost;
    if (peer.state != Peer::State::open || !room(peer, cost)) {
      if (Status status = wait_for_room(peer, key, cost, deadline); !status.ok()) return status;
    }
    std::size_t part = 0;
    do {
      if (!send_part(peer, key, message, part)) {
        engine_.progress();  // the chores tell why
        return gone(peer);
      }
    } while (++part < message.size());
  }
  remembered = sent;
  ++sent_messages_;
  sent_bytes_ += size;
  return {};
}

Status LaneChannel::wait_for_room(Peer& peer, const Key& key, std::size_t cost, Deadline deadline) {
  while (true) {
    engine_.settle();
    if (inbox_.refused(key.generation)) return inbox_.refusal(key.generation);
    if (peer.state != Peer::State::open) return gone(peer);
    if (room(peer, cost)) return {};
    endpoints_.room_wanted = true;
    const bool stirred = engine_.drive(deadline);
    endpoints_.room_wanted = false;
    if (!stirred) {
      return {Code::deadline, "lane " + std::to_string(lane_) + ": " + describe(peer.lane, key, "to") +
                                  " found no room in time (the peer takes nothing: post its receives before what "
                                  "it waits for, or raise the window)"};
    }
  }
}

bool LaneChannel::send_part(Peer& peer, const Key& key, const Message& message, std::size_t part) {
  const Buffer* buffer = message.empty() ? nullptr : &message[part];
  const std::size_t length = buffer == nullptr || buffer->none() ? 0 : buffer->descriptor.bytes();
  Envelope envelope;
  envelope.from = lane_;
  envelope.secret = options_.secret;
  envelope.incarnation = incarnation_;
  envelope.generation = key.generation;
  envelope.step = key.step;
  envelope.tag = key.tag;
  envelope.part = static_cast<std::uint16_t>(part);
  envelope.parts = static_cast<std::uint16_t>(message.size());
  SendRecord* record = endpoints_.record();
  const std::size_t header_length = encode(envelope, buffer, record->header);
  std::uint32_t flags = 0;
  record->cost = cost_of(length);
  const bool crowded = peer.sent - peer.matched + record->cost > options_.window;
  peer.sent += record->cost;
  if (length > 0) {
    if (length >= kOfferBytes || crowded) {
      flags = UCP_AM_SEND_FLAG_RNDV;
      if (crowded) record->cost += kOfferCost;
    }
  }
  return endpoints_.send(peer, kDataId, record, header_length, buffer, length, flags);
}

Status LaneChannel::send_to_self(const Key& key, Message& message) {
  if (inbox_.deliver({key, lane_}, message) == Inbox::Arrival::duplicate) {
    return inbox_.misuse(lane_, key, "was sent before", "send each key once; give a repeated step a new generation");
  }
  return {};
}

Status LaneChannel::post_recv(std::int32_t from, const Key& key) {
  const Engine::Call call(engine_);
  Status status = intake_.post(from, key);
  engine_.tidy();
  return status;
}

Status LaneChannel::wait(std::int32_t from, const Key& key, Deadline deadline, Message* out) {
  const Engine::Call call(engine_);
  bool pending = false;
  if (Status status = inbox_.check_wait(from, key, &pending); !status.ok()) return status;
  const Address address{key, from};
  if (pending) {
    Peer& peer = endpoints_[from];
    intake_.await(&address);
    intake_.prepare();
    awaited_from_ = from;
    std::size_t starved_at = 0;  // offers parked when the peer was last told
    Status status;
    while (true) {
      engine_.settle();
      if (inbox_.refused(key.generation)) {
        status = inbox_.refusal(key.generation);
      } else if (!inbox_.pending(address)) {
        break;
      } else if (peer.state == Peer::State::lost) {
        status = gone(peer);
      } else {
        if (peer.offered.size() > starved_at && !intake_.on_its_way(address)) {  // see flow.h
          starved_at = peer.offered.size();
          endpoints_.note(peer, Note::starved);
        }
        if (!engine_.drive(deadline)) status = inbox_.late(from, key);
      }
      if (!status.ok()) break;
    }
    intake_.await(nullptr);
    awaited_from_ = -1;
    if (!status.ok()) return status;
  }
  intake_.reuse(*out);
  inbox_.take(address, out);
  return {};
}

bool LaneChannel::poll(std::int32_t from, const Key& key) {
  const Engine::Call call(engine_);
  engine_.progress();
  if (!inbox_.valid(from) || inbox_.refused(key.generation) || !inbox_.pending({key, from})) return true;
  return endpoints_[from].state == Peer::State::lost;
}

// --- any thread --------------------------------------------------------------------------------------------------

void LaneChannel::refuse_below(std::uint64_t generation, const std::string* abort_cause) {
  std::vector<KeyTable::Dropped> dropped;  // destroyed without the turn: an owner's deleter may take its time
  const Visit visit(engine_);
  if (!inbox_.refuse_below(generation, abort_cause, dropped)) return;
  intake_.drop_below(generation, dropped);
  engine_.stir();
}

void LaneChannel::abort(std::uint64_t generation, const std::string& cause) {
  refuse_below(after(generation), &cause);
}

void LaneChannel::set_generation(std::uint64_t generation) {
  refuse_below(generation, nullptr);
}

Counters LaneChannel::counters() const {
  std::lock_guard turn(engine_.turn());
  Counters counters = inbox_.received();
  counters.sent_messages = sent_messages_;
  counters.sent_bytes = sent_bytes_;
  return counters;
}

std::uint64_t LaneChannel::foreign_dropped() const {
  std::lock_guard turn(engine_.turn());
  return intake_.foreign();
}

std::uint64_t LaneChannel::malformed_dropped() const {
  std::lock_guard turn(engine_.turn());
  return intake_.malformed();
}

void LaneChannel::set_peer(std::int32_t lane, const std::string& address) {
  const EndAddress end = decode(address);
  if (!inbox_.valid(lane) || lane == lane_ || end.lane != lane) {
    throw std::invalid_argument("ucx: lane " + std::to_string(lane_) + " was given lane " + std::to_string(end.lane) +
                                "'s address for lane " + std::to_string(lane) + " (one for each other lane)");
  }
  const Visit visit(engine_);
  Peer& peer = endpoints_[lane];
  if (peer.state == Peer::State::open && peer.incarnation == end.incarnation && !peer.failed) return;
  if (peer.state == Peer::State::open) lose(peer, "it was replaced");
  std::erase(peer.retired, end.incarnation);
  endpoints_.open(peer, end);
  engine_.stir();
}

void LaneChannel::drop_peer(std::int32_t lane, const std::string& cause) {
  const Visit visit(engine_);
  if (!inbox_.valid(lane) || lane == lane_) return;
  lose(endpoints_[lane], cause);
}

std::string LaneChannel::transports() const {
  std::lock_guard turn(engine_.turn());
  std::set<std::string> names;
  // "# lane[0]:  0:posix/memory.0 md[0] -> ..." is posix, "1:tcp/eth0.0" is tcp/eth0.
  const auto collect = [&](const std::string& line) {
    const auto slash = line.find('/');
    if (line.find("lane[") == std::string::npos || slash == std::string::npos) return;
    const auto start = line.find_last_of(" :", slash) + 1;
    std::string name = line.substr(start, line.find_first_of(" \t", slash) - start);
    name.resize(std::min(name.size(), name.rfind('.')));
    if (name.ends_with("/memory")) name.resize(name.size() - 7);
    names.insert(name);
  };
  for (const Peer& peer : endpoints_.all()) {
    if (peer.endpoint == nullptr || peer.failed) continue;
    std::istringstream lines(printed([&](FILE* file) { ucp_ep_print_info(peer.endpoint, file); }));
    for (std::string line; std::getline(lines, line);) {
      collect(line);
    }
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

// --- the engine's questions, with the turn -----------------------------------------------------------------------

void LaneChannel::lose(Peer& peer, const std::string& cause) {
  if (peer.state == Peer::State::lost) return;
  intake_.forget(peer);
  endpoints_.close(peer);
  peer.state = Peer::State::lost;
  peer.cause = cause;
  peer.failed = false;
  engine_.stir();
}

void LaneChannel::chores() {
  endpoints_.sweep();
  for (Peer& peer : endpoints_.all()) {
    if (peer.failed) lose(peer, peer.failure);
    intake_.chores(peer);
  }
}

bool LaneChannel::expecting() const {
  for (const Peer& peer : endpoints_.all()) {
    if (peer.under_way > 0 || !peer.running.empty()) return true;
  }
  return false;
}

void LaneChannel::watch(Clock::time_point now) {
  if (now < next_watch_) return;
  next_watch_ = now + std::min<Clock::duration>(options_.stall / 8, std::chrono::seconds(1));
  for (Peer& peer : endpoints_.all()) {
    if (peer.state != Peer::State::open || peer.failed) continue;
    if (peer.under_way == 0 && peer.running.empty() && peer.lane != awaited_from_) continue;
    if (std::exchange(peer.heard, false) || now - peer.last_watch > options_.stall / 2) peer.last_heard = now;
    peer.last_watch = now;
    if (now - peer.last_heard > options_.stall) {
      lose(peer, "it took nothing and said nothing for " + std::to_string(options_.stall.count()) + " ms");
    } else if (now - peer.last_heard > options_.stall / 4 && now - peer.last_ping > options_.stall / 4) {
      peer.last_ping = now;
      endpoints_.note(peer, Note::ping);
    }
  }
}

void LaneChannel::process_ended(std::int32_t lane) {
  Peer& peer = endpoints_[lane];
  if (peer.state == Peer::State::open && peer.process >= 0) {
    lose(peer, "process " + std::to_string(peer.pid) + " has ended");
  }
}

}  // namespace nestor::comm::ucx
