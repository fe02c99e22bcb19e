#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <nestor/comm/channel.h>

namespace nestor::comm {

/// Collectives over channels. `lanes` are the members, sorted, each once, the caller's `self` among them; every member
/// calls with the same lanes and the same key, from its own lane's thread. The key is the collective's alone. Results
/// come in the order of `lanes`, so that every member computes the same from them, bit for bit.
/// Errors: the first one of the channel (deadline, aborted, stale), with the key spent: repeat under another one.

/// Every member's message, the own one included, by reference where the backend can.
Status all_gather(Channel& channel, std::int32_t self, std::span<const std::int32_t> lanes, const Key& key,
                  Message message, Deadline deadline, std::vector<Message>* out);

/// Every member's bytes; lengths may differ, also be 0. For small payloads: they are copied.
Status all_gather_bytes(Channel& channel, std::int32_t self, std::span<const std::int32_t> lanes, const Key& key,
                        std::span<const std::byte> bytes, Deadline deadline, std::vector<std::vector<std::byte>>* out);

/// Replaces `values` by the sum over all members, added in the order of `lanes`. Code::misuse where lengths differ;
/// `values` are then unchanged, as after every error.
Status all_sum(Channel& channel, std::int32_t self, std::span<const std::int32_t> lanes, const Key& key,
               std::span<double> values, Deadline deadline);

}  // namespace nestor::comm
