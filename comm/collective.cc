#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <nestor/comm/collective.h>

namespace nestor::comm {

namespace {

Status check_members(std::int32_t self, std::span<const std::int32_t> lanes) {
  const std::string where = "lane " + std::to_string(self) + ": collective ";
  if (std::adjacent_find(lanes.begin(), lanes.end(), std::greater_equal<>()) != lanes.end()) {
    return {Code::misuse, where + "over unsorted or repeated lanes (sort them, each once)"};
  }
  if (!std::binary_search(lanes.begin(), lanes.end(), self)) {
    return {Code::misuse, where + "that it is no member of (list the calling lane too)"};
  }
  return {};
}

Buffer copy_of(std::span<const std::byte> bytes) {
  auto memory = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  Buffer buffer;
  buffer.descriptor = {DType::uint8, Device{}, {static_cast<std::int64_t>(bytes.size())}};
  buffer.data = memory->data();
  buffer.owner = std::move(memory);
  return buffer;
}

}  // namespace

Status all_gather(Channel& channel, std::int32_t self, std::span<const std::int32_t> lanes, const Key& key,
                  Message message, Deadline deadline, std::vector<Message>* out) {
  if (Status status = check_members(self, lanes); !status.ok()) return status;
  // Receives first, so that a backend can take bytes in place; then sends, so that nobody waits for a send.
  for (std::int32_t lane : lanes) {
    if (lane == self) continue;
    if (Status status = channel.post_recv(lane, key); !status.ok()) return status;
  }
  for (std::int32_t lane : lanes) {
    if (lane == self) continue;
    if (Status status = channel.send(lane, key, message, deadline); !status.ok()) return status;
  }
  std::vector<Message> messages(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == self) {
      messages[i] = std::move(message);
    } else if (Status status = channel.wait(lanes[i], key, deadline, &messages[i]); !status.ok()) {
      return status;
    }
  }
  *out = std::move(messages);
  return {};
}

Status all_gather_bytes(Channel& channel, std::int32_t self, std::span<const std::int32_t> lanes, const Key& key,
                        std::span<const std::byte> bytes, Deadline deadline, std::vector<std::vector<std::byte>>* out) {
  std::vector<Message> messages;
  Status status = all_gather(channel, self, lanes, key, {copy_of(bytes)}, deadline, &messages);
  if (!status.ok()) return status;
  std::vector<std::vector<std::byte>> gathered;
  gathered.reserve(messages.size());
  for (const Message& message : messages) {
    if (message.size() != 1) {
      return {Code::misuse, "lane " + std::to_string(self) + ": a member sent " + std::to_string(message.size()) +
                                " buffers where bytes were gathered (all members call the same collective)"};
    }
    if (message[0].readable) message[0].readable->wait();
    const auto* data = static_cast<const std::byte*>(message[0].data);
    gathered.emplace_back(data, data + message[0].descriptor.bytes());
  }
  *out = std::move(gathered);
  return {};
}

Status all_sum(Channel& channel, std::int32_t self, std::span<const std::int32_t> lanes, const Key& key,
               std::span<double> values, Deadline deadline) {
  std::vector<std::vector<std::byte>> gathered;
  Status status = all_gather_bytes(channel, self, lanes, key, std::as_bytes(values), deadline, &gathered);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (gathered[i].size() != values.size_bytes()) {
      return {Code::misuse, "lane " + std::to_string(self) + ": sums " + std::to_string(values.size()) +
                                " values but lane " + std::to_string(lanes[i]) + " sent " +
                                std::to_string(gathered[i].size()) + " bytes (all members sum the same values)"};
    }
  }
  std::vector<double> sum(values.size(), 0.0);
  for (const std::vector<std::byte>& bytes : gathered) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      double value;
      std::memcpy(&value, bytes.data() + i * sizeof(double), sizeof(double));
      sum[i] += value;
    }
  }
  std::copy(sum.begin(), sum.end(), values.begin());
  return {};
}

}  // namespace nestor::comm
