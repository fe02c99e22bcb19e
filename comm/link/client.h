#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include <nestor/comm/link/endpoint.h>
#include <nestor/comm/link/socket.h>
#include <nestor/comm/link/wire.h>

namespace nestor::comm::link {

/// A DEALER with CURVE, a new one for each connection, so that nothing sent on an old one arrives on the next. Its
/// thread connects, serves the connection, and begins again. Sending: as with the server.
class Client final : public LinkClient {
 public:
  Client(const std::string& endpoint, const std::string& server_key, const LinkKeys& keys, LinkHandler& handler,
         const LinkOptions& options);
  ~Client() override;

  Status send(std::string message) override;
  std::string trouble() const override;

 private:
  // In the link's thread.
  void run();
  std::string connect();  ///< empty once welcomed, otherwise why not
  std::string await_welcome(const std::string& address);
  std::string serve();  ///< until the connection is lost: why
  std::string read_frames(Time now, bool* drained);
  std::string read_monitor();
  std::string beat(Time now);
  void pause(std::chrono::milliseconds time);
  void disconnect();
  bool stopped() const;

  LinkHandler& handler_;
  const LinkOptions options_;
  const LinkKeys keys_;
  const std::string server_key_;
  const Endpoint endpoint_;
  zmq::context_t context_{1};
  Wake wake_;
  std::minstd_rand jitter_{std::random_device{}()};
  std::size_t attempts_ = 0;

  mutable std::mutex mutex_;
  bool stop_ = false, asleep_ = false, connected_ = false;
  std::optional<zmq::socket_t> socket_;
  std::unique_ptr<Monitor> monitor_;
  std::string trouble_ = "not connected yet";
  std::vector<std::string> arrived_;
  Assembly assembly_;
  Time heard_, sent_, next_beat_, last_round_;

  std::thread thread_;
};

}  // namespace nestor::comm::link
