#pragma once

#include <cstdint>

namespace nestor::actors {

/// How far the steady clock of another host is ahead of this one's, known from the messages that go to and fro anyway,
/// as NTP knows it (RFC 5905): a message cannot arrive before it was sent, which bounds the difference from both sides,
/// and the narrowest bounds count, until clocks may have drifted apart by more than others allow. Where the clocks may
/// be one and the same they are taken to be. Nanoseconds. One thread.
class PeerClock {
 public:
  /// A message left at `sent` and its answer arrived at `received`, by our clock; by the peer's, it arrived at `began`
  /// and the answer left at `ended`.
  void heard(std::int64_t sent, std::int64_t began, std::int64_t ended, std::int64_t received) {
    const std::int64_t least = ended - received, most = began - sent;
    if (known_ && most - least > most_ - least_ + (received - at_) / kDrift) return;
    known_ = true;
    least_ = least;
    most_ = most;
    at_ = received;
  }
  std::int64_t ahead() const { return least_ <= 0 && most_ >= 0 ? 0 : least_ + (most_ - least_) / 2; }

 private:
  static constexpr std::int64_t kDrift = 5'000;  ///< 200 ppm: both clocks are off by as much as quartz may be

  bool known_ = false;
  std::int64_t least_ = 0, most_ = 0;
  std::int64_t at_ = 0;  ///< when that was found
};

}  // namespace nestor::actors
