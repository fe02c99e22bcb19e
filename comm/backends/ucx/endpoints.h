#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <nestor/comm/backends/ucx/engine.h>
#include <nestor/comm/backends/ucx/peer.h>
#include <nestor/comm/backends/ucx/wire.h>

namespace nestor::comm::ucx {

/// A send that UCX has not completed: what must live until then. Recycled.
struct SendRecord {
  class Endpoints* owner = nullptr;
  Peer* peer = nullptr;
  std::uint64_t epoch = 0;
  std::size_t cost = 0;  ///< 0 for notes
  enum class State : std::uint8_t { idle, under_way, abandoned } state = State::idle;
  std::shared_ptr<const void> memory;  ///< of the buffer
  alignas(8) std::byte header[kMaxHeader];
  SendRecord* next = nullptr;
};

/// The connections of one end and what is sent over them. Guarded by the engine's turn.
class Endpoints {
 public:
  Endpoints(Engine& engine, std::int32_t lane, std::int32_t lanes, std::uint64_t secret, std::uint64_t incarnation);
  ~Endpoints();

  Peer& operator[](std::int32_t lane) { return peers_[static_cast<std::size_t>(lane)]; }
  std::vector<Peer>& all() { return peers_; }
  const std::vector<Peer>& all() const { return peers_; }

  /// The peer is closed or unknown. Throws std::runtime_error where UCX cannot use the address.
  void open(Peer& peer, const EndAddress& address);
  /// Gives the connection up: everything under way ends as cancelled, and its memory is free.
  void close(Peer& peer);
  /// Says goodbye to all, waits until what was sent has left or `limit` has passed, and closes. With the turn.
  void leave_all(Clock::duration limit);

  /// A record to send with; take_back it unless it was sent.
  SendRecord* record();
  void take_back(SendRecord* record);
  /// Sends a header and a buffer, whose memory is kept alive for as long as needed; the record is gone afterwards. An
  /// error has marked the peer as failed.
  bool send(Peer& peer, unsigned id, SendRecord* record, std::size_t header_length, const Buffer* buffer,
            std::size_t length, std::uint32_t flags);
  void note(Peer& peer, Note note, std::uint64_t value = 0);

  /// Frees what closing left; now and then.
  void sweep();
  bool room_wanted = false;  ///< the lane waits in a send: completions stir it

 private:
  static void on_sent(void* request, ucs_status_t status, void* record);
  static void on_error(void* tag, ucp_ep_h endpoint, ucs_status_t status);
  void retire(ucp_ep_h endpoint, std::uint32_t flags);
  void abandon_sends(const Peer& peer);

  struct Tag {  ///< what an endpoint's error callback gets; kept until the end
    Endpoints* owner;
    Peer* peer;
    std::uint64_t epoch;
  };

  Engine& engine_;
  const std::int32_t lane_;
  const std::uint64_t secret_, incarnation_;
  std::vector<Peer> peers_;
  std::deque<Tag> tags_;
  std::vector<void*> closing_;
  std::deque<SendRecord> records_;
  SendRecord* free_ = nullptr;
};

}  // namespace nestor::comm::ucx
