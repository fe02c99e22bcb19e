#pragma once

#include <cstddef>
#include <cstdint>

namespace nestor::comm::ucx {

/// Flow control between two lanes. Three bounds, each the `window` of the options; a message's cost is its bytes plus
/// an allowance for what holds it.
///
/// 1. A sender has at most a window of unfinished sends; `send` waits for room. One message may always go.
/// 2. A sender uses eager messages, which land in the receiver's memory whether it wants them or not, only while less
///    than a window of what it sent is unmatched at the receiver. Beyond that it offers buffers (rendezvous), however
///    small, and they stay in its own memory until pulled. The receiver tells now and then how much it has matched.
/// 3. A receiver pulls an offered buffer at once if its key is posted, whatever is under way, and otherwise only while
/// a
///    window has room for what nobody has posted.
///
/// So a receiver holds at most two windows of unposted bytes of a peer, and its sender one window of unfinished sends.
///
/// No deadlock among lanes that post before they wait: a posted key is always pulled, also while the receiver itself
/// waits in a send, because a blocked lane drives progress and its helper does while it computes; so two lanes that
/// post and then send any amount to each other drain each other. What remains are keys that nobody has posted yet:
/// - A sends K1 and K2, K1 fills the window, B waits for K2 and will post K1 later. B sees that its wait on A cannot
/// end
///   while A's offers are parked, and tells A that it starves; each such note lets A go one window further. What A
///   holds then is what the program itself sends ahead of the key that B waits for.
/// - Lanes that each send more than three windows to one another before any of them posts: that is a program without an
///   order, and the sends end by their deadline, saying so.
constexpr std::size_t kMessageCost = 512;  ///< a small message that is held: its buffer, shape and table slot
constexpr std::size_t kOfferCost = 8704;   ///< an offer that is held keeps one of the transport's own receive segments

constexpr std::size_t cost_of(std::size_t bytes) {
  return bytes + kMessageCost;
}

/// Concurrent pulls from one peer: enough to hide a round trip, so two of any size, and few enough that a stream of
/// large buffers is received into the same few blocks while they are in the cache. Through memory one at a time: the
/// receiver copies.
constexpr std::size_t kRunningPulls = 2;
constexpr std::size_t kRunningBytes = std::size_t{4} << 20;

/// From this size on, a posted message that came whole is left where the transport received it: reading it anyway is
/// the user's, and its lines are still in the sender's cache.
constexpr std::size_t kLendBytes = 128;

/// Buffers of this size and more are offered and received straight into place; smaller ones are copied once.
constexpr std::size_t kOfferBytes = std::size_t{64} << 10;

}  // namespace nestor::comm::ucx
