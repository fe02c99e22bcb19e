#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <zmq.hpp>

#include <nestor/comm/link.h>

namespace nestor::comm::link {

using Time = std::chrono::steady_clock::time_point;

/// Wakes a thread that waits in `wait_readable`. Any thread.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  void signal();
  void clear();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

/// A handle of our own on one of libzmq's connections, since a ROUTER cannot close one: shut down, libzmq closes it.
class Duplicate {
 public:
  explicit Duplicate(int descriptor);
  ~Duplicate();
  Duplicate(const Duplicate&) = delete;
  Duplicate& operator=(const Duplicate&) = delete;
  void shut_down();

 private:
  int descriptor_;
};

/// Waits until one of the descriptors is readable or `until` has come. Negative descriptors are left out.
void wait_readable(std::initializer_list<int> descriptors, Time until);

/// What libzmq says of a socket's connections: ZMQ_EVENT_* and their value. The socket outlives it; thread: the one
/// that owns the socket.
class Monitor {
 public:
  struct Event {
    std::uint16_t event;
    std::uint32_t value;
  };
  Monitor(zmq::context_t& context, zmq::socket_t& socket, const std::string& name, int events);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  /// False where there is nothing more to tell.
  bool next(Event* event);
  int descriptor() const { return descriptor_; }

 private:
  zmq::socket_t& socket_;
  zmq::socket_t reader_;
  int descriptor_;
};

/// Everything that must be set on every socket of a link, but for whose side it is.
void configure(zmq::socket_t& socket, const LinkOptions& options, const LinkKeys& keys);

/// Was the link's thread kept from running between two rounds (a stopped process, a starved one)? It cannot blame its
/// peers for the silence then: their signs of life may still be on the way, and half a timeout is left to them.
bool held_up(Time last_round, Time now, const LinkOptions& options);

/// "1.5 s", for people.
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace nestor::comm::link
