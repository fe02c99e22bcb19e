#include <algorithm>
#include <stdexcept>
#include <utility>

#include <nestor/comm/link/client.h>
#include <nestor/comm/quiet_thread.h>

namespace nestor::comm::link {
namespace {

using std::chrono::milliseconds;
constexpr int kBatch = 64;  // frames that are read before the handler hears of them
constexpr milliseconds kFirstPause{10}, kLongestPause{1000}, kGoodbye{1000};
const std::string kServer = "server", kNoRoute;

Time now_() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Client::Client(const std::string& endpoint, const std::string& server_key, const LinkKeys& keys, LinkHandler& handler,
               const LinkOptions& options)
    : handler_(handler), options_(options), keys_(keys), server_key_(server_key), endpoint_(parse_endpoint(endpoint)) {
  if (server_key_.size() != 40) throw std::runtime_error(endpoint + ": the server's key has 40 characters");
  zmq::socket_t probe(context_, zmq::socket_type::dealer);
  configure(probe, options_, keys_);  // throws on a bad key here, not in the thread
  probe.set(zmq::sockopt::curve_serverkey, server_key_);
  thread_ = quiet_thread([this] { run(); });
}

Client::~Client() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.signal();
  thread_.join();
  if (!connected_) {
    disconnect();
    return;
  }
  // The server closes its end once it has read all and the goodbye; a full queue may move on until then.
  const auto until = now_() + kGoodbye;
  const int data = static_cast<int>(socket_->get(zmq::sockopt::fd));
  bool said = false, heard = false;
  for (Frame frame; !heard && read_monitor().empty() && now_() < until;) {
    said = said || send_frame(*socket_, kNoRoute, Kind::bye).code != Code::misuse;
    while (receive_frame(*socket_, false, &frame)) heard = heard || frame.kind() == Kind::bye;
    if (!heard && !readable(*socket_))
      wait_readable({data, monitor_->descriptor()}, said ? until : std::min(until, now_() + kGoodbye / 50));
  }
  disconnect();
}

bool Client::stopped() const {
  std::lock_guard lock(mutex_);
  return stop_;
}

std::string Client::trouble() const {
  std::lock_guard lock(mutex_);
  return trouble_;
}

Status Client::send(std::string message) {
  if (message.size() > options_.max_message)
    return {Code::misuse, "a message of " + std::to_string(message.size()) + " bytes (a link's are at most " +
                              std::to_string(options_.max_message) + ")"};
  std::lock_guard lock(mutex_);
  if (!connected_) return {Code::peer_lost, "server is not connected: " + trouble_};
  auto status = send_message(*socket_, kNoRoute, message);
  if (status.ok())
    sent_ = now_();
  else
    status.message = "server: " + status.message;
  if (asleep_ && readable(*socket_)) {  // the signal for what came is consumed
    asleep_ = false;
    wake_.signal();
  }
  return status;
}

void Client::run() {
  auto next_pause = kFirstPause;
  while (!stopped()) {
    auto trouble = connect();
    if (trouble.empty()) {
      auto since = now_();
      handler_.connected(kServer);
      auto cause = serve();
      if (stopped()) return;
      disconnect();
      trouble = "lost: " + cause;
      if (now_() - since >= kLongestPause) next_pause = kFirstPause;
      {
        std::lock_guard lock(mutex_);
        trouble_ = trouble;
      }
      handler_.lost(kServer, cause);
    } else {
      disconnect();
      std::lock_guard lock(mutex_);
      trouble_ = trouble;
    }
    // Between half and whole, so that many clients do not come all at once.
    pause(milliseconds(std::uniform_int_distribution<long>(next_pause.count() / 2, next_pause.count())(jitter_)));
    next_pause = std::min(2 * next_pause, kLongestPause);
  }
}

void Client::pause(milliseconds time) {
  for (auto until = now_() + time; !stopped() && now_() < until; wake_.clear())
    wait_readable({wake_.descriptor()}, until);
}

void Client::disconnect() {
  std::lock_guard lock(mutex_);
  connected_ = false;
  monitor_.reset();
  socket_.reset();
  arrived_.clear();
  assembly_ = {};
}

std::string Client::connect() {
  Resolution resolution(endpoint_);
  while (!resolution.ready()) {
    if (stopped()) return "stopped";
    wait_readable({resolution.descriptor(), wake_.descriptor()}, now_() + kLongestPause);
    wake_.clear();
  }
  auto addresses = resolution.take();
  if (addresses.endpoints.empty()) return addresses.trouble;
  const auto& address = addresses.endpoints[attempts_++ % addresses.endpoints.size()];
  try {
    std::lock_guard lock(mutex_);
    auto& socket = socket_.emplace(context_, zmq::socket_type::dealer);
    configure(socket, options_, keys_);
    socket.set(zmq::sockopt::curve_serverkey, server_key_);
    socket.set(zmq::sockopt::zap_domain, "nestor");
    socket.set(zmq::sockopt::ipv6, address.starts_with("tcp://["));
    monitor_ = std::make_unique<Monitor>(context_, socket, "monitor-" + std::to_string(attempts_), ZMQ_EVENT_ALL);
    socket.connect(address);
  } catch (const zmq::error_t& error) {
    return endpoint_.shown() + ": " + error.what();
  }
  return await_welcome(address);
}

std::string Client::await_welcome(const std::string& address) {
  const auto begin = now_();
  const auto late = "no answer from " + endpoint_.shown();
  auto until = begin + options_.handshake + options_.handshake + options_.timeout;
  auto since = begin;  // of the present state
  bool reached = false;
  const int data = static_cast<int>(socket_->get(zmq::sockopt::fd));
  while (now_() < until) {
    if (stopped()) return "stopped";
    for (Monitor::Event event; monitor_->next(&event);) {
      switch (event.event) {
        case ZMQ_EVENT_CONNECTED:
          reached = true;
          since = now_();
          break;
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: {
          std::lock_guard lock(mutex_);
          auto status = send_frame(*socket_, kNoRoute, Kind::hello, kProtocol);
          if (!status.ok()) return "connection closed";
          until = now_() + options_.timeout;
          break;
        }
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
          return "its key was rejected by " + endpoint_.shown();
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
          return endpoint_.shown() + " does not speak this protocol";
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        case ZMQ_EVENT_DISCONNECTED:
        case ZMQ_EVENT_CLOSED: {
          bool waited = now_() - since >= options_.handshake * 9 / 10;
          if (waited) return late;
          if (reached) return endpoint_.shown() + " closed the connection (it has another key, or is no link)";
          auto trouble = connection_trouble(address, endpoint_.shown());
          return trouble.empty() ? late : trouble;
        }
        default:
          break;
      }
    }
    {
      std::lock_guard lock(mutex_);
      Frame frame;
      if (receive_frame(*socket_, false, &frame) && frame.kind() == Kind::welcome) {
        connected_ = true;
        trouble_.clear();
        heard_ = sent_ = next_beat_ = last_round_ = now_();
        return {};
      }
    }
    wait_readable({data, monitor_->descriptor(), wake_.descriptor()}, until);
    wake_.clear();
  }
  return late;
}

std::string Client::serve() {
  const int data = static_cast<int>(socket_->get(zmq::sockopt::fd));
  std::vector<std::string> told;
  std::string cause;
  for (bool closed = false;;) {
    Time until{};
    bool asleep = false;
    {
      std::lock_guard lock(mutex_);
      asleep_ = false;
      if (stop_) return {};
      auto now = now_();
      if (!closed) {
        auto trouble = read_monitor();
        closed = !trouble.empty();
      }
      bool drained = false;
      cause = read_frames(now, &drained);  // also what came before the connection closed
      if (cause.empty() && drained && closed) cause = "connection closed";
      if (cause.empty() && drained) {
        cause = beat(now);
        last_round_ = now;
        asleep = asleep_ =
            cause.empty() && arrived_.empty() && !readable(*socket_);  // sending may have consumed a signal
        until = next_beat_;
      }
      told.swap(arrived_);
      if (!cause.empty()) {
        connected_ = false;
        trouble_ = "lost: " + cause;
      }
    }
    for (auto& message : told) handler_.received(kServer, std::move(message));
    told.clear();
    if (!cause.empty()) return cause;
    if (asleep) {
      wait_readable({data, monitor_->descriptor(), wake_.descriptor()}, until);
      wake_.clear();
    }
  }
}

std::string Client::read_monitor() {
  for (Monitor::Event event; monitor_->next(&event);)
    if (event.event == ZMQ_EVENT_DISCONNECTED || event.event == ZMQ_EVENT_CLOSED) return "connection closed";
  return {};
}

std::string Client::read_frames(Time now, bool* drained) {
  Frame frame;
  for (int i = 0; i < kBatch; ++i) {
    if (!receive_frame(*socket_, false, &frame)) {
      *drained = true;
      return {};
    }
    heard_ = now;
    auto kind = frame.kind();
    if (kind == Kind::bye) return "left";
    if (kind == Kind::unknown) return "given up by the server after a silence";
    if (kind < Kind::whole || kind > Kind::last) continue;
    std::string message;
    auto result = assembly_.take(kind, frame.body(), options_.max_message, &message);
    if (result == Assembly::Result::whole) arrived_.push_back(std::move(message));
    if (result == Assembly::Result::too_large)
      return "sent a message of more than " + std::to_string(options_.max_message) + " bytes";
  }
  return {};
}

std::string Client::beat(Time now) {
  if (held_up(last_round_, now, options_)) heard_ = std::max(heard_, now - options_.timeout / 2);
  if (now < next_beat_) return {};
  if (now - heard_ >= options_.timeout) return "silent for " + seconds_text(options_.timeout);
  if (now - sent_ >= options_.heartbeat) {
    sent_ = now;
    [[maybe_unused]] auto told = send_frame(*socket_, kNoRoute, Kind::alive);
  }
  next_beat_ = std::min(heard_ + options_.timeout, sent_ + options_.heartbeat);
  return {};
}

}  // namespace nestor::comm::link

namespace nestor::comm {

std::unique_ptr<LinkClient> connect_link(const std::string& endpoint, const std::string& server_public_key,
                                         const LinkKeys& keys, LinkHandler& handler, const LinkOptions& options) {
  return std::make_unique<link::Client>(endpoint, server_public_key, keys, handler, options);
}

}  // namespace nestor::comm
