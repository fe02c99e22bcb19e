#pragma once
// Inside actors/remote/.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nestor/actors/remote/bulk_ends.h>

namespace nestor::wire {  // envelope.proto
class Answer;
class Envelope;
class Offer;
}  // namespace nestor::wire

namespace nestor::actors::remote {

/// Long payloads by UCX, beside the direct links that have them: a channel for each direction, made when the first
/// payload wants it and given up when it has been idle. Where there is none the sender takes parts instead. Any thread.
class Bulk {
 public:
  struct Hooks {
    std::function<std::string(wire::Envelope&)> send;  ///< over the link; empty, or why not
    std::function<std::uint64_t(const std::string& to)> sent_by_link;
    std::function<void(Letter&, const std::string& from)> arrived;
    /// Letters that were carried; that were not and may go another way; of which nobody knows.
    std::function<void(const LetterPtr&)> carried;
    std::function<void(const std::vector<LetterPtr>&)> unsent;
    std::function<void(const std::vector<LetterPtr>&, const std::string& cause)> lost;
    std::function<void()> idle;                           ///< a channel was given up for that
    std::function<void(const std::string& text)> notice;  ///< for the log
  };
  /// `idle`: a channel without a payload for so long is given up.
  explicit Bulk(Hooks hooks, std::chrono::nanoseconds idle = std::chrono::minutes(1))
      : hooks_(std::move(hooks)), idle_(idle) {}
  /// Without it nothing is carried. Before anything else.
  void start(const comm::UcxOptions& options) { options_ = options; }
  /// Ends all and waits for their threads: not in one of them.
  void stop();

  /// May a payload of so many bytes to that address go here? Prepares for it.
  bool wants(const std::string& to, std::size_t bytes) { return sender(to, bytes) != nullptr; }
  /// Takes the letter, or says that it must go another way. It is not handed on before what has gone by the link. One
  /// thread at a time.
  bool carry(const std::string& to, std::size_t bytes, const LetterPtr& letter);
  /// The letter has been taken back.
  bool withdraw(const std::string& to, const LetterPtr& letter);

  void offered(const std::string& from, const wire::Offer& offer);
  void answered(const std::string& from, const wire::Answer& answer);
  void fenced(const std::string& from, std::uint64_t number);
  /// The link is gone; all are where `peer` is empty.
  void forget(const std::string& peer);
  /// Bytes of payloads handed to channels.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  static constexpr std::size_t kLeast = std::size_t{64} << 10;  ///< bytes; shorter payloads stay on the link
  static constexpr std::size_t kWaits = std::size_t{1} << 20;   ///< longer ones wait for the channel to be made
  /// Bytes of freed memory that are kept for the next payloads, of each channel's received ones and of a node's copies.
  static constexpr std::size_t kKeptMemory = std::size_t{512} << 20;
  static constexpr std::size_t kSenders = 64, kReceivers = 256;  ///< at most, for all links together

 private:
  struct Route {
    std::shared_ptr<BulkSender> sender;
    bool closed = false;  ///< there was no channel, or it broke: parts from now on
  };
  std::shared_ptr<BulkSender> sender(const std::string& to, std::size_t bytes);
  void ended(const std::string& to, const BulkSender& sender, const std::string& cause);
  void answer(const std::string& to, std::uint64_t number, const std::string& address, const std::string& refused);
  comm::UcxOptions options(std::uint64_t secret) const;
  void bury(std::shared_ptr<BulkEnd> end);
  /// Takes those that have finished out of ending_; destroy them without the lock.
  std::vector<std::shared_ptr<BulkEnd>> finished();
  void say_once(const std::string& text);

  const Hooks hooks_;
  const std::chrono::nanoseconds idle_;
  std::optional<comm::UcxOptions> options_;
  std::mutex mutex_;
  bool stopped_ = false;
  std::uint64_t next_ = 1;
  std::map<std::string, Route> routes_;                             ///< by address
  std::map<std::string, std::shared_ptr<BulkReceiver>> receivers_;  ///< by address
  std::map<std::string, std::uint64_t> fences_;                     ///< the last that came, by address
  std::atomic<std::uint64_t> next_fence_{1};
  std::vector<std::shared_ptr<BulkEnd>> ending_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> said_{false};
};

}  // namespace nestor::actors::remote
