#pragma once
// Inside actors/remote/.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace nestor::wire {  // envelope.proto
class Credit;
class Envelope;
class Part;
}  // namespace nestor::wire

namespace nestor::actors::remote {

/// The longest payload (arguments or result of one call) between processes.
inline constexpr std::uint64_t kLongestPayload = std::uint64_t{4} << 30;
/// "PAYLOAD of 5000 MiB is more than the 4096 MiB that ..." or empty where it is not too long.
std::string too_long(const std::string& payload, std::uint64_t bytes);

/// Long payloads in parts, each a message of its own, a few under way at a time: signs of life and other actors' calls
/// go between them, and a slow receiver slows the sender down. What is sent to or by one actor stays in its order.
/// Any thread; parts go out in the thread that brings the credit.
class Transfers {
 public:
  /// Sends one part or credit.
  using Send = std::function<std::string(wire::Envelope&)>;
  explicit Transfers(Send send) : send_(std::move(send)) {}

  /// False where the envelope is short and nothing of its actor waits: send it as it is. Otherwise it is taken.
  bool take(wire::Envelope& envelope);
  void credited(const std::string& from, const wire::Credit& credit);
  /// Takes a part, and answers it. True when it was the last one: `whole` is what was sent.
  bool arrived(const wire::Envelope& part, wire::Envelope* whole);
  /// The node or link is gone; all are where `peer` is empty.
  void forget(const std::string& peer);

  static constexpr std::size_t kPart = std::size_t{1} << 20;  ///< payloads up to this travel whole
  static constexpr std::size_t kUnderWay = 4;                 ///< parts

 private:
  using Key = std::pair<std::string, std::string>;  ///< node, actor
  struct Stream {
    std::deque<std::shared_ptr<wire::Envelope>> queue;  ///< the first is being sent
    std::uint64_t transfer = 0;
    std::string payload;
    std::size_t sent = 0, under_way = 0;
    bool begun = false;
  };
  struct Inbound {
    std::string envelope, payload;
    std::uint64_t total = 0;
  };
  bool pump(const Key& key, Stream& stream);  ///< false where the stream has ended

  const Send send_;
  std::mutex mutex_;
  std::atomic<std::size_t> open_{0};
  std::uint64_t next_ = 1;
  std::map<Key, Stream> streams_;
  std::map<std::pair<std::string, std::uint64_t>, Inbound> inbound_;  ///< by sender and transfer
};

}  // namespace nestor::actors::remote
