#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <nestor/comm/status.h>

namespace nestor::comm {

/// Links: small control messages between processes, over ZeroMQ with CURVE encryption and authentication (RFC 26/ZMTP).
/// Not for tensors: about 0.15 GB/s. docs/adr/0008-control-links.md.

/// A CURVE25519 pair, 40 characters of Z85 each.
struct LinkKeys {
  std::string public_key, secret_key;
};
LinkKeys make_link_keys();

struct LinkOptions {
  std::chrono::milliseconds heartbeat{400};         ///< a side that has sent nothing for so long sends a sign of life
  std::chrono::milliseconds timeout{1500};          ///< a peer that has been silent for so long is lost
  std::chrono::milliseconds handshake{3000};        ///< a connection that has not proven its key by then is closed
  std::size_t max_message = std::size_t{64} << 20;  ///< bytes; a larger one is refused, its connection closed
  std::size_t queue = 100'000;                      ///< messages waiting for one peer; more are refused
};

struct LinkCounters {
  std::uint64_t sent = 0, received = 0;  ///< messages, signs of life not counted
  std::uint64_t refused = 0;             ///< connections: unknown key, no or a wrong handshake
};

/// Told of what happens on a link, in the link's own thread: must return soon, must not throw and must not destroy the
/// link; it may send on it. Messages of one peer come in the order
/// sent, after its `connected` and before its `lost`.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  virtual void connected(const std::string& peer) = 0;
  virtual void received(const std::string& peer, std::string message) = 0;
  /// `cause` is "left" after an orderly close, otherwise what is known: "silent for 1.5 s", "connection closed".
  virtual void lost(const std::string& peer, const std::string& cause) = 0;
};

/// The listening end. Peers are called after their keys, "NAME#3": NAME of the key's owner and a number of the
/// connection. Only keys that were allowed enter. Any thread.
class LinkServer {
 public:
  /// Says goodbye to all peers, waits for a second at most until they have heard it, closes. No callback after that.
  virtual ~LinkServer() = default;
  /// Of the listening socket, with the port chosen where 0 was asked for.
  virtual std::string endpoint() const = 0;
  virtual void allow(const std::string& public_key, const std::string& name) = 0;
  /// Queues a message. Code::peer_lost where there is no such peer (any more); Code::misuse where it is too large or
  /// the peer's queue is full.
  virtual Status send(const std::string& peer, std::string message) = 0;
  /// Closes one peer's link: both sides hear "left". It may connect anew.
  virtual void close(const std::string& peer) = 0;
  virtual LinkCounters counters() const = 0;
};
/// `endpoint` is "tcp://127.0.0.1:7700" (port 0: any) or "ipc:///path/to/socket". Throws std::runtime_error where it
/// cannot be bound, naming it. The handler outlives the server.
std::unique_ptr<LinkServer> listen_link(const std::string& endpoint, const LinkKeys& keys, LinkHandler& handler,
                                        const LinkOptions& options = {});

/// The connecting end. Connects in the background, again and again with backoff until it is destroyed; after a loss it
/// connects anew (its handler then hears `lost` and `connected`, with "server" as peer). Any thread.
class LinkClient {
 public:
  /// Sends what is queued and a goodbye, waits for a second at most until the server has read it, closes. No callback
  /// after that.
  virtual ~LinkClient() = default;
  /// Queues a message for the server; Code::peer_lost where it is not connected.
  virtual Status send(std::string message) = 0;
  /// Why it is not connected, in a few words ("refused by 127.0.0.1:7700", "no answer", "its key was rejected"); empty
  /// while connected.
  virtual std::string trouble() const = 0;
};
std::unique_ptr<LinkClient> connect_link(const std::string& endpoint, const std::string& server_public_key,
                                         const LinkKeys& keys, LinkHandler& handler, const LinkOptions& options = {});

}  // namespace nestor::comm
