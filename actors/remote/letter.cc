#include <climits>
#include <memory>
#include <utility>

#include <nestor/actors/remote/letter.h>

namespace nestor::actors::remote {
namespace {

constexpr std::size_t kAlignment = 16;  // as codec.cc: tensors are used where they lie

std::size_t filled_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

comm::Buffer buffer_of(std::string bytes) {
  if (bytes.empty()) return {};
  auto owner = std::make_shared<std::string>(std::move(bytes));
  comm::Buffer buffer;
  buffer.descriptor.dtype = comm::DType::uint8;
  buffer.descriptor.shape = {static_cast<std::int64_t>(owner->size())};
  buffer.data = owner->data();
  buffer.owner = std::move(owner);
  return buffer;
}

std::string_view view_of(const comm::Buffer& buffer) {
  if (buffer.none()) return {};
  return {static_cast<const char*>(buffer.data), buffer.descriptor.bytes()};
}

google::protobuf::RepeatedField<std::uint64_t>* attached_of(wire::Envelope& envelope) {
  if (envelope.has_call()) return envelope.mutable_call()->mutable_attached();
  if (envelope.has_reply()) return envelope.mutable_reply()->mutable_attached();
  return nullptr;
}

}  // namespace

std::string* payload_of(wire::Envelope& envelope) {
  switch (envelope.body_case()) {
    case wire::Envelope::kCall:
      return envelope.mutable_call()->mutable_arguments();
    case wire::Envelope::kReply:
      return envelope.mutable_reply()->mutable_result();
    case wire::Envelope::kSpawn:
      return envelope.mutable_spawn()->mutable_arguments();
    default:
      return nullptr;
  }
}

std::size_t payload_size(const Letter& letter) {
  std::size_t size = comm::bytes(letter.attached);
  switch (letter.envelope.body_case()) {
    case wire::Envelope::kCall:
      return size + letter.envelope.call().arguments().size();
    case wire::Envelope::kReply:
      return size + letter.envelope.reply().result().size();
    case wire::Envelope::kSpawn:
      return size + letter.envelope.spawn().arguments().size();
    default:
      return size;
  }
}

const std::string& actor_of(const wire::Envelope& envelope) {
  static const std::string none;
  switch (envelope.body_case()) {
    case wire::Envelope::kCall:
      return envelope.call().actor();
    case wire::Envelope::kReply:
      return envelope.reply().actor();
    case wire::Envelope::kDown:
      return envelope.down().actor();
    case wire::Envelope::kEnd:
      return envelope.end().actor();
    case wire::Envelope::kCancel:
      return envelope.cancel().actor();
    default:
      return none;
  }
}

void flatten(Letter& letter) {
  if (letter.attached.empty()) return;
  std::string& payload = *payload_of(letter.envelope);
  auto& sizes = *attached_of(letter.envelope);
  std::string flat;
  std::size_t size = payload.size();
  for (const auto& buffer : letter.attached) size += filled_up(buffer.descriptor.bytes());
  flat.reserve(size);
  for (const auto& buffer : letter.attached) {
    sizes.Add(buffer.descriptor.bytes());
    flat.append(view_of(buffer));
    flat.resize(filled_up(flat.size()));
  }
  flat += payload;
  payload = std::move(flat);
  letter.attached.clear();
}

Decoder::Owned open_payload(Letter& letter) {
  auto& sizes = *attached_of(letter.envelope);
  if (!letter.bytes.none() || !letter.attached.empty()) {
    if (!sizes.empty()) Decoder::malformed("its payload is in two places");
    return {view_of(letter.bytes), std::move(letter.bytes.owner), std::move(letter.attached)};
  }
  std::string* payload = payload_of(letter.envelope);
  if (sizes.empty()) return Decoder::Owned(std::move(*payload));
  const auto owner = std::make_shared<std::string>(std::move(*payload));
  std::string_view rest = *owner;
  comm::Message attached;
  for (const std::uint64_t size : sizes) {
    if (size > rest.size() || filled_up(size) > rest.size()) Decoder::malformed("an attached tensor ends early");
    comm::Buffer& buffer = attached.emplace_back();
    buffer.descriptor.dtype = comm::DType::uint8;
    buffer.descriptor.shape = {static_cast<std::int64_t>(size)};
    buffer.data = rest.data();
    buffer.owner = owner;
    rest.remove_prefix(filled_up(size));
  }
  return {rest, owner, std::move(attached)};
}

comm::Message pack(Letter& letter) {
  std::string payload = std::move(*payload_of(letter.envelope));
  payload_of(letter.envelope)->clear();
  comm::Message message;
  message.reserve(letter.attached.size() + 2);
  message.push_back(buffer_of(letter.envelope.SerializeAsString()));
  message.push_back(buffer_of(std::move(payload)));
  for (auto& buffer : letter.attached) message.push_back(std::move(buffer));
  letter.attached.clear();
  return message;
}

Letter unpack(comm::Message message) {
  if (message.size() < 2) Decoder::malformed("it has no payload");
  Letter letter;
  const std::string_view envelope = view_of(message[0]);
  if (envelope.size() > INT_MAX ||
      !letter.envelope.ParseFromArray(envelope.data(), static_cast<int>(envelope.size())) ||
      attached_of(letter.envelope) == nullptr)
    Decoder::malformed("it is neither a call nor a reply");
  letter.bytes = std::move(message[1]);
  letter.attached.assign(std::make_move_iterator(message.begin() + 2), std::make_move_iterator(message.end()));
  return letter;
}

}  // namespace nestor::actors::remote
