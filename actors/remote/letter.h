#pragma once
// Inside actors/remote/.

#include <cstddef>
#include <string>

#include <envelope.pb.h>

#include <nestor/actors/codec.h>

namespace nestor::actors::remote {

/// An envelope, and of its payload (arguments or result) what lies beside it: buffers that it refers to, and the bytes
/// themselves where they arrived in memory of their own.
struct Letter {
  wire::Envelope envelope;
  comm::Buffer bytes;
  comm::Message attached;
};

/// The part of an envelope that may be long; null where it has none.
std::string* payload_of(wire::Envelope& envelope);
/// Bytes of the payload, attached ones included.
std::size_t payload_size(const Letter& letter);
/// The actor that an envelope is for or from, in whose order it stays.
const std::string& actor_of(const wire::Envelope& envelope);

/// Copies what is attached in front of the payload: the envelope is then all there is.
void flatten(Letter& letter);
/// The payload of a call or reply that arrived, taken out of it, flat or not. Throws Error where its parts do not fit
/// together.
Decoder::Owned open_payload(Letter& letter);

/// A letter with a call or a reply as buffers that travel by a channel; its payload is then gone.
comm::Message pack(Letter& letter);
/// Throws Error for what `pack` did not make.
Letter unpack(comm::Message message);

}  // namespace nestor::actors::remote
