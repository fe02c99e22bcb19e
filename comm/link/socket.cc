#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nestor/comm/link/socket.h>
#include <nestor/comm/link/wire.h>

namespace nestor::comm {

LinkKeys make_link_keys() {
  char public_key[41], secret_key[41];
  if (zmq_curve_keypair(public_key, secret_key) != 0)
    throw std::runtime_error(std::string("libzmq makes no CURVE keys: ") + zmq_strerror(zmq_errno()));
  return {public_key, secret_key};
}

namespace link {

Wake::Wake() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Wake::~Wake() {
  ::close(descriptor_);
}

void Wake::signal() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(descriptor_, &one, sizeof one);  // full: it is signalled already
}

Duplicate::Duplicate(int descriptor) : descriptor_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) {}

Duplicate::~Duplicate() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Duplicate::shut_down() {
  if (descriptor_ >= 0) ::shutdown(descriptor_, SHUT_RDWR);
}

void Wake::clear() {
  std::uint64_t count;
  [[maybe_unused]] auto taken = ::read(descriptor_, &count, sizeof count);
}

void wait_readable(std::initializer_list<int> descriptors, Time until) {
  std::array<pollfd, 8> polled;
  nfds_t count = 0;
  for (int descriptor : descriptors) polled.at(count++) = {descriptor, POLLIN, 0};
  auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  ::poll(polled.data(), count, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
}

Monitor::Monitor(zmq::context_t& context, zmq::socket_t& socket, const std::string& name, int events)
    : socket_(socket), reader_(context, zmq::socket_type::pair) {
  auto address = "inproc://" + name;
  if (zmq_socket_monitor(socket_.handle(), address.c_str(), events) != 0) throw zmq::error_t();
  // Without a limit: libzmq's I/O thread would wait for a slow reader otherwise.
  reader_.set(zmq::sockopt::rcvhwm, 0);
  reader_.set(zmq::sockopt::linger, 0);
  reader_.connect(address);
  descriptor_ = static_cast<int>(reader_.get(zmq::sockopt::fd));
}

Monitor::~Monitor() {
  zmq_socket_monitor(socket_.handle(), nullptr, 0);  // before the reader goes: events without a reader would block
}

bool Monitor::next(Event* event) {
  const auto take = [&](zmq::message_t& part) {
    return uninterrupted([&] { return reader_.recv(part, zmq::recv_flags::dontwait); }).has_value();
  };
  for (zmq::message_t head, address; take(head);) {
    if (head.more() && !take(address)) return false;
    if (head.size() < sizeof event->event + sizeof event->value) continue;
    std::memcpy(&event->event, head.data<char>(), sizeof event->event);
    std::memcpy(&event->value, head.data<char>() + sizeof event->event, sizeof event->value);
    return true;
  }
  return false;
}

void configure(zmq::socket_t& socket, const LinkOptions& options, const LinkKeys& keys) {
  if (keys.public_key.size() != 40 || keys.secret_key.size() != 40)
    throw std::runtime_error("a link's keys are 40 characters each (make_link_keys)");
  auto milliseconds = [](std::chrono::milliseconds time) { return static_cast<int>(std::max<long>(time.count(), 1)); };
  auto queue = static_cast<int>(std::clamp<std::size_t>(options.queue, 1, 100'000'000));
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(kLargestFrame));
  socket.set(zmq::sockopt::linger, 0);  // where a goodbye is said, it is raised
  socket.set(zmq::sockopt::sndhwm, queue);
  socket.set(zmq::sockopt::rcvhwm, std::min(queue, 10'000));
  socket.set(zmq::sockopt::handshake_ivl, milliseconds(options.handshake));
  socket.set(zmq::sockopt::connect_timeout, milliseconds(options.handshake));
  socket.set(zmq::sockopt::reconnect_ivl, -1);  // a new connection is a new socket: nothing old travels on it
  // ZMTP's own heartbeat stays off: libzmq 4.3.4 aborts when its timer fires on a connection that broke while its input
  // was stopped by a full queue (docs/gotchas.md). A link has signs of life of its own.
  socket.set(zmq::sockopt::curve_publickey, keys.public_key);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
}

bool held_up(Time last_round, Time now, const LinkOptions& options) {
  return now - last_round > options.heartbeat + options.timeout / 4;  // a round comes with every heartbeat
}

std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", static_cast<double>(time.count()) / 1e3);
  return text;
}

}  // namespace link
}  // namespace nestor::comm
