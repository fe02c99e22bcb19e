#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include <nestor/comm/channel.h>

namespace nestor::comm::ucx {

struct Assembly;

/// A large buffer that a peer offers and that is received straight into its final memory.
struct Pull {
  enum class State : std::uint8_t { offered, wanted, running, orphan };  ///< which list it is in

  class Intake* intake = nullptr;
  Assembly* assembly = nullptr;  ///< null once nobody wants the bytes
  std::int32_t from = -1;
  State state = State::offered;
  std::uint16_t part = 0;
  void* offer = nullptr;  ///< UCX's descriptor; null once the transfer has begun
  std::size_t length = 0;
  std::shared_ptr<void> block;
  std::list<Pull>::iterator self;
};

/// What an end knows of another lane. Guarded by the engine's turn.
struct Peer {
  enum class State : std::uint8_t { unknown, open, lost };

  std::int32_t lane = -1;
  State state = State::unknown;
  std::string cause;  ///< of the loss
  ucp_ep_h endpoint = nullptr;
  std::uint64_t epoch = 0;        ///< counts endpoints: completions of an older one change nothing
  std::uint64_t incarnation = 0;  ///< of the end we connected to
  std::vector<std::uint64_t> retired;
  std::int32_t pid = 0;
  int process = -1;        ///< a pidfd where the peer is a process of this machine
  bool by_memory = false;  ///< all traffic goes through memory that both map, or that the kernel copies for them
  bool failed = false;
  std::string failure;

  // Sending: flow.h has the rules.
  std::size_t under_way = 0;  ///< cost of sends that have not completed
  std::size_t overdraft = 0;  ///< by how much they may exceed the window
  std::uint64_t sent = 0;     ///< cost of all sends to this incarnation
  std::uint64_t matched = 0;  ///< of those, what the peer has matched, as far as it has told

  // Receiving.
  std::uint64_t heard_from = 0;  ///< incarnation of the last message
  std::uint64_t taken = 0, told = 0;
  std::size_t unmatched = 0;                 ///< cost of what has arrived and is not posted
  std::list<Pull> wanted, offered, running;  ///< posted; not posted; transfers that have begun
  std::size_t running_bytes = 0;
  bool owes_taken = false, owes_pong = false;

  // Silence.
  bool heard = false;
  Clock::time_point last_heard{}, last_ping{}, last_watch{};
};

}  // namespace nestor::comm::ucx
