#pragma once

#include <cstdint>
#include <string>

namespace nestor::comm {

/// How a channel operation ended. Status codes inside channel calls; actors/ turns them into exceptions once.
enum class Code : std::uint8_t {
  ok,
  pending,    ///< only from a wait whose deadline has not passed (polling)
  deadline,   ///< the deadline passed
  aborted,    ///< the channel's generation was aborted; `message` has the cause
  stale,      ///< the key's generation is older than the channel's
  peer_lost,  ///< the peer is gone
  misuse,     ///< a key received twice, a wrong lane; `message` says what to do instead
};

struct [[nodiscard]] Status {
  Code code = Code::ok;
  std::string message;  ///< empty when ok: making an ok Status never allocates

  bool ok() const { return code == Code::ok; }
  static Status success() { return {}; }
};

}  // namespace nestor::comm
