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
#include <vector>

namespace nestor::wire {  // envelope.proto
class Cancel;
class Credit;
class Envelope;
}  // namespace nestor::wire

namespace nestor::actors::remote {

class Bulk;
struct Letter;

/// The longest payload (arguments or result of one call) between processes.
inline constexpr std::uint64_t kLongestPayload = std::uint64_t{4} << 30;
/// "PAYLOAD of 5000 MiB is more than the 4096 MiB that ..." or empty where it is not too long.
std::string too_long(const std::string& payload, std::uint64_t bytes);

/// Long payloads on their way: by a channel of their own where there is one (bulk.h), else in parts, each a message of
/// its own, a few under way at a time: signs of life and other actors' calls go between them, and a slow receiver slows
/// the sender down. What is sent to or by one actor stays in its order. Any thread; parts go out in the thread that
/// brings the credit.
class Transfers {
 public:
  using LetterPtr = std::shared_ptr<Letter>;
  /// Sends an envelope, a part or a credit.
  using Send = std::function<std::string(wire::Envelope&)>;
  explicit Transfers(Send send, Bulk* bulk = nullptr) : send_(std::move(send)), bulk_(bulk) {}

  /// False where the letter is short and nothing of its actor waits: send it as it is. Otherwise it is taken.
  bool take(Letter& letter);
  void credited(const std::string& from, const wire::Credit& credit);
  /// Takes a part, and answers it. True when it was the last one: `whole` is what was sent.
  bool arrived(const wire::Envelope& part, wire::Envelope* whole);
  /// The node or link is gone; all are where `peer` is empty.
  void forget(const std::string& peer);

  // What became of letters that `bulk` took (its hooks).
  void carried(const LetterPtr& letter);
  void unsent(const std::vector<LetterPtr>& letters);
  /// Those of the letters that somebody still wants to hear of.
  std::vector<LetterPtr> lost(const std::vector<LetterPtr>& letters);

  static constexpr std::size_t kPart = std::size_t{1} << 20;  ///< payloads up to this travel whole
  static constexpr std::size_t kUnderWay = 4;                 ///< parts

 private:
  using Key = std::pair<std::string, std::string>;  ///< node, actor
  struct Stream {
    std::deque<LetterPtr> queue;    ///< parts of the first may be under way
    std::deque<LetterPtr> carried;  ///< ... before these have arrived nothing else goes
    std::uint64_t transfer = 0;
    std::string payload;
    std::size_t sent = 0, under_way = 0;
    bool begun = false;
  };
  using Streams = std::map<Key, Stream>;
  struct Inbound {
    std::string envelope, payload;
    std::uint64_t total = 0;
  };
  bool pump(const Key& key, Stream& stream);  ///< false where the stream has ended
  void pump_or_end(Streams::iterator stream);
  bool send_part(const Key& key, Stream& stream);
  bool withdraw(const Key& key, Stream& stream, const wire::Cancel& cancel);
  Streams::iterator stream_of(const LetterPtr& letter);

  const Send send_;
  Bulk* const bulk_;
  std::mutex mutex_;
  std::atomic<std::size_t> open_{0};
  std::uint64_t next_ = 1;
  Streams streams_;
  std::map<std::pair<std::string, std::uint64_t>, Inbound> inbound_;  ///< by sender and transfer
};

}  // namespace nestor::actors::remote
