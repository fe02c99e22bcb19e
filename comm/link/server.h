#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <zmq.hpp>

#include <nestor/comm/link/socket.h>
#include <nestor/comm/link/wire.h>

namespace nestor::comm::link {

/// A ROUTER with CURVE, its ZAP handler, and the thread that reads both. Any thread may send: the ROUTER is passed
/// around under a mutex, so that a message costs no hand-over beyond libzmq's own. A sender that finds something to
/// read meanwhile (it has consumed the signal for it) wakes the thread.
class Server final : public LinkServer {
 public:
  Server(const std::string& endpoint, const LinkKeys& keys, LinkHandler& handler, const LinkOptions& options);
  ~Server() override;

  std::string endpoint() const override { return endpoint_; }
  void allow(const std::string& public_key, const std::string& name) override;
  Status send(const std::string& peer, std::string message) override;
  void close(const std::string& peer) override;
  LinkCounters counters() const override;

 private:
  struct Peer {
    std::string name, route;
    Time heard, sent;  ///< lost but still connected: `heard` is when it was lost
    Assembly assembly;
    std::unique_ptr<Duplicate> connection;
    bool lost = false;
  };
  using PeerPointer = std::shared_ptr<Peer>;
  struct Happening {
    enum class What : unsigned char { connected, received, lost } what;
    PeerPointer peer;
    std::string text;
  };

  void run();
  // All of these with `mutex_` held, in the link's thread.
  void read_monitor();
  void turn_away();
  void admit();
  bool read_frames(Time now);
  void take(Frame& frame, Time now);
  void greet(Frame& frame, Time now);
  void end_connections();
  Time beat(Time now);
  void lose(const PeerPointer& peer, const std::string& cause);
  void say_goodbye();

  LinkHandler& handler_;
  const LinkOptions options_;
  zmq::context_t context_{1};
  zmq::socket_t zap_{context_, zmq::socket_type::rep}, socket_{context_, zmq::socket_type::router};
  std::unique_ptr<Monitor> monitor_;
  Wake wake_;
  std::string endpoint_;

  mutable std::mutex mutex_;
  bool stop_ = false, asleep_ = false;
  std::unordered_map<std::string, std::string> allowed_;  // name by public key
  std::unordered_map<std::string, PeerPointer> by_name_, by_route_;
  std::unordered_map<std::uint64_t, PeerPointer> by_connection_;
  std::unordered_map<int, std::uint64_t> connections_;  // number of the connection by descriptor
  std::map<std::uint64_t, int> strangers_;              // connections without a hello yet, and their descriptors
  std::vector<std::uint64_t> ended_;                    // connections that closed
  std::uint64_t last_connection_ = 0, last_peer_ = 0;
  std::vector<Happening> happenings_;  // to be told to the handler
  LinkCounters counters_;
  Time next_beat_, last_round_;

  std::thread thread_;
};

}  // namespace nestor::comm::link
