#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <nestor/comm/channel.h>

namespace nestor::comm::ucx {

/// What travels in front of a buffer. A message is one active message per buffer (one without payload where it has
/// none), each complete in itself, so that the header stays small enough for the shortest path of every transport and a
/// large tensor is received where it stays. Bytes are in the machine's own order: all lanes of a cluster are alike, and
/// the magic number differs in the other order.
struct Envelope {
  std::uint32_t magic = 0;
  std::int32_t from = -1;
  std::uint64_t secret = 0;
  std::uint64_t incarnation = 0;  ///< the sending end; another one each time a lane is opened
  std::uint64_t generation = 0, step = 0, tag = 0;
  std::uint16_t part = 0, parts = 0;  ///< which buffer of how many; 0 of 0 is an empty message
  std::uint8_t dtype = 0;
  std::uint8_t rank = 0;  ///< that many int64 extents follow
  std::uint8_t none = 0;
  std::uint8_t reserved = 0;
};
static_assert(sizeof(Envelope) == 56);

constexpr std::size_t kMaxRank = 16;
constexpr std::size_t kMaxHeader = sizeof(Envelope) + kMaxRank * sizeof(std::int64_t);
constexpr std::uint32_t kMagic = 0x3152534e;  // "NSR1"
constexpr std::size_t kMaxParts = 65535;
constexpr unsigned kDataId = 1, kNoteId = 2;  ///< active messages: a buffer; between the ends themselves

/// Writes a buffer's dtype, shape and none marker, and the magic number; returns the header's length.
/// The buffer's rank is at most kMaxRank.
inline std::size_t encode(Envelope envelope, const Buffer* buffer, std::byte* out) {
  envelope.magic = kMagic;
  std::size_t length = sizeof(Envelope);
  if (buffer != nullptr) {
    const Descriptor& what = buffer->descriptor;
    envelope.dtype = static_cast<std::uint8_t>(what.dtype);
    envelope.none = buffer->none() ? 1 : 0;
    envelope.rank = static_cast<std::uint8_t>(what.shape.size());
    for (const std::int64_t extent : what.shape) {
      std::memcpy(out + length, &extent, sizeof(extent));
      length += sizeof(extent);
    }
  }
  std::memcpy(out, &envelope, sizeof(Envelope));
  return length;
}
/// False for anything that `encode` did not write. `payload` is the number of bytes that came with it.
bool decode(const void* header, std::size_t length, std::size_t payload, Envelope* out);
/// Dtype and shape of a header that decode accepted.
void describe(const Envelope& envelope, const void* header, Descriptor* out);

/// Small messages between the ends themselves.
enum class Note : std::uint32_t {
  ping,     ///< answer with a pong
  pong,     ///< alive
  taken,    ///< `value`: what the sender of this note has matched with receives since it first heard of the other end
  starved,  ///< a wait on you cannot end while your sends hold the window: go beyond it
  goodbye,  ///< the sender leaves in order
};
struct NoteMessage {
  std::uint32_t magic = 0;
  std::int32_t from = -1;
  std::uint64_t secret = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t value = 0;
  Note note = Note::ping;
  std::uint32_t reserved = 0;
};

/// An end's address: what UCX needs and what lets a neighbour on the same machine watch the process.
struct EndAddress {
  std::int32_t lane = -1;
  std::uint64_t incarnation = 0;
  std::int32_t pid = 0;
  std::uint64_t machine = 0;  ///< equal for processes that see each other's ids: boot and pid namespace
  std::string worker;         ///< UCX's part
};
std::string encode(const EndAddress& address);
/// Throws std::invalid_argument for bytes that `encode` did not write.
EndAddress decode(std::string_view bytes);
/// EndAddress::machine of this process.
std::uint64_t this_machine();

}  // namespace nestor::comm::ucx
