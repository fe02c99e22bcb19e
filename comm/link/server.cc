#include <algorithm>
#include <stdexcept>
#include <utility>

#include <unistd.h>
#include <zmq_addon.hpp>

#include <nestor/comm/link/endpoint.h>
#include <nestor/comm/link/server.h>
#include <nestor/comm/quiet_thread.h>

namespace nestor::comm::link {
namespace {

constexpr int kBatch = 64;  // frames that are read before the handler hears of them
constexpr std::chrono::milliseconds kGoodbye{1000};
constexpr std::size_t kMostStrangers = 256;  // connections that have not proven a key: each costs a descriptor

Time now_() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Server::Server(const std::string& endpoint, const LinkKeys& keys, LinkHandler& handler, const LinkOptions& options)
    : handler_(handler), options_(options), next_beat_(now_()), last_round_(now_()) {
  auto addresses = resolve(parse_endpoint(endpoint));
  if (addresses.endpoints.empty()) throw std::runtime_error(endpoint + ": " + addresses.trouble);
  const auto& address = addresses.endpoints.front();
  // ZeroMQ would unlink another server's live socket and take its place.
  if (address.starts_with("ipc://") && connection_trouble(address, address).empty())
    throw std::runtime_error(endpoint + ": another process listens there");
  try {
    configure(socket_, options_, keys);
    zap_.set(zmq::sockopt::linger, 0);
    zap_.bind("inproc://zeromq.zap.01");
    socket_.set(zmq::sockopt::curve_server, true);
    socket_.set(zmq::sockopt::zap_domain, "nestor");
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::backlog, 1024);  // a whole cluster may come at once
    socket_.set(zmq::sockopt::ipv6, address.starts_with("tcp://["));
    monitor_ = std::make_unique<Monitor>(context_, socket_, "monitor", ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED);
    socket_.bind(address);
    endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
  } catch (const zmq::error_t& error) {
    throw std::runtime_error(endpoint + ": cannot listen there: " + error.what());
  }
  thread_ = quiet_thread([this] { run(); });
}

Server::~Server() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.signal();
  thread_.join();
  say_goodbye();
  for (auto& [connection, peer] : by_connection_) peer->connection->shut_down();
  monitor_.reset();
  if (endpoint_.starts_with("ipc:///")) ::unlink(endpoint_.c_str() + 6);  // libzmq leaves it
}

void Server::say_goodbye() {
  std::vector<std::string> routes;
  for (const auto& [route, peer] : by_route_) routes.push_back(route);
  const auto until = now_() + kGoodbye;
  const int data = static_cast<int>(socket_.get(zmq::sockopt::fd));
  // A client closes its end once it has read all and the goodbye; a full queue may move on until then.
  for (Frame dropped; !by_connection_.empty() && now_() < until;) {
    std::erase_if(routes, [&](auto& route) { return send_frame(socket_, route, Kind::bye).code != Code::misuse; });
    while (receive_frame(socket_, true, &dropped)) {
    }
    read_monitor();
    for (auto connection : std::exchange(ended_, {})) by_connection_.erase(connection);
    if (!by_connection_.empty() && !readable(socket_))
      wait_readable({data, monitor_->descriptor()}, routes.empty() ? until : std::min(until, now_() + kGoodbye / 50));
  }
}

void Server::allow(const std::string& public_key, const std::string& name) {
  std::lock_guard lock(mutex_);
  allowed_[public_key] = name;
}

LinkCounters Server::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

Status Server::send(const std::string& peer, std::string message) {
  if (message.size() > options_.max_message)
    return {Code::misuse, "a message of " + std::to_string(message.size()) + " bytes for " + peer +
                              " (a link's are at most " + std::to_string(options_.max_message) + ")"};
  std::lock_guard lock(mutex_);
  auto found = by_name_.find(peer);
  if (found == by_name_.end()) return {Code::peer_lost, peer + " is not connected"};
  auto status = send_message(socket_, found->second->route, message);
  if (status.ok()) {
    found->second->sent = now_();
    ++counters_.sent;
  } else {
    status.message = peer + ": " + status.message;
  }
  if (asleep_ && readable(socket_)) {
    asleep_ = false;
    wake_.signal();
  }
  return status;
}

void Server::close(const std::string& peer) {
  std::lock_guard lock(mutex_);
  auto found = by_name_.find(peer);
  if (found == by_name_.end()) return;
  auto leaving = found->second;
  [[maybe_unused]] auto told = send_frame(socket_, leaving->route, Kind::bye);
  lose(leaving, "left");
  asleep_ = false;
  wake_.signal();
}

void Server::run() {
  const int data = static_cast<int>(socket_.get(zmq::sockopt::fd)), zap = static_cast<int>(zap_.get(zmq::sockopt::fd));
  std::vector<Happening> told;
  for (;;) {
    Time until{};
    bool asleep = false;
    {
      std::lock_guard lock(mutex_);
      asleep_ = false;
      if (stop_) return;
      auto now = now_();
      admit();
      read_monitor();
      turn_away();
      if (read_frames(now)) {
        end_connections();
        until = beat(now);
        // Sending may have consumed a signal: look once more before sleeping.
        last_round_ = now;
        asleep = asleep_ = happenings_.empty() && ended_.empty() && !readable(socket_);
      }
      told.swap(happenings_);
    }
    for (auto& happening : told) {
      const auto& name = happening.peer->name;
      switch (happening.what) {
        case Happening::What::connected:
          handler_.connected(name);
          break;
        case Happening::What::received:
          handler_.received(name, std::move(happening.text));
          break;
        case Happening::What::lost:
          handler_.lost(name, happening.text);
          break;
      }
    }
    told.clear();
    if (asleep) {
      wait_readable({data, zap, monitor_->descriptor(), wake_.descriptor()}, until);
      wake_.clear();
    }
  }
}

void Server::read_monitor() {
  for (Monitor::Event event; monitor_->next(&event);) {
    auto descriptor = static_cast<int>(event.value);
    if (event.event == ZMQ_EVENT_ACCEPTED) {
      connections_[descriptor] = ++last_connection_;
      strangers_[last_connection_] = descriptor;
    } else if (auto found = connections_.find(descriptor); found != connections_.end()) {
      ended_.push_back(found->second);
      strangers_.erase(found->second);
      connections_.erase(found);
    }
  }
}

void Server::turn_away() {
  // The oldest go first: a peer needs milliseconds to prove its key, and tries again where it was unlucky.
  while (strangers_.size() > kMostStrangers) {
    const auto [connection, descriptor] = *strangers_.begin();
    Duplicate duplicate(descriptor);
    read_monitor();  // still that connection's? (greet)
    const auto found = strangers_.find(connection);
    if (found == strangers_.end()) continue;
    duplicate.shut_down();
    strangers_.erase(found);
  }
}

void Server::admit() {  // ZeroMQ Authentication Protocol, RFC 27
  std::vector<zmq::message_t> request;
  while (zmq::recv_multipart(zap_, std::back_inserter(request), zmq::recv_flags::dontwait)) {
    std::string name;
    bool known = false;
    if (request.size() >= 7 && request[5].to_string_view() == "CURVE" && request[6].size() == 32) {
      char key[41];
      zmq_z85_encode(key, request[6].data<std::uint8_t>(), 32);
      auto found = allowed_.find(key);
      known = found != allowed_.end();
      if (known) name = found->second;
    }
    auto part = [&](std::string_view text, bool more) {
      zap_.send(zmq::buffer(text), more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    };
    part("1.0", true);
    part(request.size() > 1 ? request[1].to_string_view() : std::string_view(), true);
    part(known ? "200" : "400", true);
    part(known ? "" : "unknown key", true);
    part(name, true);
    part("", false);
    request.clear();
  }
}

bool Server::read_frames(Time now) {
  Frame frame;
  for (int i = 0; i < kBatch; ++i) {
    if (!receive_frame(socket_, true, &frame)) return true;
    take(frame, now);
  }
  return false;
}

void Server::take(Frame& frame, Time now) {
  auto kind = frame.kind();
  auto found = by_route_.find(frame.route);
  if (found == by_route_.end()) {
    if (kind == Kind::hello) {
      greet(frame, now);
    } else if (kind != Kind::bye) {  // given up before: it must come back under another number
      [[maybe_unused]] auto told = send_frame(socket_, frame.route, Kind::unknown);
    }
    return;
  }
  auto peer = found->second;
  peer->heard = now;
  if (kind == Kind::bye) {
    [[maybe_unused]] auto answered = send_frame(socket_, frame.route, Kind::bye);  // all that it sent was read
    return lose(peer, "left");
  }
  if (kind < Kind::whole || kind > Kind::last) return;
  std::string message;
  switch (peer->assembly.take(kind, frame.body(), options_.max_message, &message)) {
    case Assembly::Result::more:
      return;
    case Assembly::Result::whole:
      ++counters_.received;
      happenings_.push_back({Happening::What::received, peer, std::move(message)});
      return;
    case Assembly::Result::too_large:
      [[maybe_unused]] auto told = send_frame(socket_, frame.route, Kind::unknown);
      ++counters_.refused;
      return lose(peer, "sent a message of more than " + std::to_string(options_.max_message) + " bytes");
  }
}

void Server::greet(Frame& frame, Time now) {
  const char* user = zmq_msg_gets(frame.message.handle(), "User-Id");
  if (!user || *user == '\0' || frame.body() != kProtocol) {  // nobody without a name from `admit`
    ++counters_.refused;
    return;
  }
  auto peer = std::make_shared<Peer>();
  peer->name = std::string(user) + "#" + std::to_string(last_peer_ + 1);
  peer->route = frame.route;
  peer->heard = peer->sent = now;
  // Whose connection it came on: ACCEPTED was before its hello, and as long as there was no DISCONNECTED, libzmq had
  // the descriptor open.
  auto descriptor = zmq_msg_get(frame.message.handle(), ZMQ_SRCFD);
  read_monitor();
  auto before = connections_.find(descriptor);
  if (before == connections_.end()) return;  // closed already
  auto connection = before->second;
  peer->connection = std::make_unique<Duplicate>(descriptor);
  read_monitor();
  auto after = connections_.find(descriptor);
  if (after == connections_.end() || after->second != connection) return;
  strangers_.erase(connection);
  by_connection_[connection] = peer;
  if (!send_frame(socket_, peer->route, Kind::welcome, kProtocol).ok()) return;
  by_name_[peer->name] = by_route_[peer->route] = peer;
  ++last_peer_;
  happenings_.push_back({Happening::What::connected, peer, {}});
  next_beat_ = std::min(next_beat_, now + options_.heartbeat);
}

void Server::end_connections() {
  for (auto connection : std::exchange(ended_, {})) {
    auto found = by_connection_.find(connection);
    if (found == by_connection_.end()) {
      ++counters_.refused;  // it never was let in
      continue;
    }
    auto peer = found->second;
    by_connection_.erase(found);
    if (!peer->lost) lose(peer, "connection closed");
  }
}

void Server::lose(const PeerPointer& peer, const std::string& cause) {
  peer->lost = true;
  peer->heard = now_();
  next_beat_ = std::min(next_beat_, peer->heard + options_.timeout);
  by_name_.erase(peer->name);
  by_route_.erase(peer->route);  // by_connection_ keeps it until the connection ends
  happenings_.push_back({Happening::What::lost, peer, cause});
}

Time Server::beat(Time now) {
  if (held_up(last_round_, now, options_))
    for (auto& [connection, peer] : by_connection_) peer->heard = std::max(peer->heard, now - options_.timeout / 2);
  if (now < next_beat_) return next_beat_;
  next_beat_ = now + std::chrono::hours(1);
  for (auto& [connection, peer] : by_connection_) {
    if (now - peer->heard >= options_.timeout) {
      if (!peer->lost) lose(peer, "silent for " + seconds_text(options_.timeout));
      peer->connection->shut_down();
      continue;
    }
    next_beat_ = std::min(next_beat_, peer->heard + options_.timeout);
    if (peer->lost) continue;
    if (now - peer->sent >= options_.heartbeat) {
      peer->sent = now;
      [[maybe_unused]] auto told = send_frame(socket_, peer->route, Kind::alive);
    }
    next_beat_ = std::min(next_beat_, peer->sent + options_.heartbeat);
  }
  next_beat_ = std::max(next_beat_, now + options_.heartbeat / 16);  // many peers share a round
  return next_beat_;
}

}  // namespace nestor::comm::link

namespace nestor::comm {

std::unique_ptr<LinkServer> listen_link(const std::string& endpoint, const LinkKeys& keys, LinkHandler& handler,
                                        const LinkOptions& options) {
  return std::make_unique<link::Server>(endpoint, keys, handler, options);
}

}  // namespace nestor::comm
