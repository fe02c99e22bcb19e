#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nestor/comm/link/socket.h>

namespace nestor::comm::link {

/// "tcp://HOST:PORT" or "ipc://PATH", taken apart.
struct Endpoint {
  bool ipc = false;
  std::string host, port;  ///< tcp
  std::string path;        ///< ipc
  std::string shown() const { return ipc ? path : host + ":" + port; }
};
/// Throws std::runtime_error naming what is wrong.
Endpoint parse_endpoint(const std::string& text);

/// The numeric addresses of a host in ZeroMQ's spelling, or why there are none. May take as long as the resolver does.
struct Addresses {
  std::vector<std::string> endpoints;
  std::string trouble;
};
Addresses resolve(const Endpoint& endpoint);

/// `resolve` on a thread of its own that nobody need wait for.
class Resolution {
 public:
  explicit Resolution(const Endpoint& endpoint);
  /// Readable once there is a result.
  int descriptor() const { return state_->done.descriptor(); }
  bool ready() const;
  Addresses take();

 private:
  struct State {
    Wake done;
    std::mutex mutex;
    bool ready = false;
    Addresses addresses;
  };
  std::shared_ptr<State> state_;
};

/// Why no connection to `address` (numeric, of ZeroMQ's spelling) comes about, by trying once for at most a quarter of
/// a second: "refused by SHOWN", "no route to SHOWN". Empty where one does.
std::string connection_trouble(const std::string& address, const std::string& shown);

}  // namespace nestor::comm::link
