#pragma once

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include <zmq.hpp>

#include <nestor/comm/status.h>

namespace nestor::comm::link {

/// The first byte of every ZeroMQ message of a link; the rest is its body.
enum class Kind : unsigned char {
  hello,    ///< the client's first one; body: kProtocol
  welcome,  ///< the server's answer
  alive,    ///< a sign of life
  bye,      ///< the sender closes the link
  unknown,  ///< the server to a connection that it has given up: connect anew
  whole,    ///< a message
  first,    ///< a long message's fragments. `whole` and `first` drop fragments that came to no end
  middle,
  last,
};
inline constexpr std::string_view kProtocol = "nestor.link/1";

/// Long messages travel in fragments of this size, so that the largest ZeroMQ message, which ZeroMQ makes room for
/// before it knows who is sending, stays small whatever LinkOptions::max_message is.
inline constexpr std::size_t kFragment = std::size_t{256} << 10;
inline constexpr std::size_t kLargestFrame = kFragment + 256;  ///< with our byte and CURVE's 33

/// Repeats a call on a socket that a signal interrupted.
template <class Call>
auto uninterrupted(Call call) {
  for (;;) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

/// Sends one frame, to `route` on a ROUTER (empty on a DEALER). Code::misuse where the queue is full, Code::peer_lost
/// where the route is gone. Never blocks.
Status send_frame(zmq::socket_t& socket, const std::string& route, Kind kind, std::string_view body = {});
/// Sends a message in as many frames as it takes. After an error the receiver gets none of it.
Status send_message(zmq::socket_t& socket, const std::string& route, std::string_view message);

/// Puts the fragments of one peer's messages together again.
class Assembly {
 public:
  enum class Result : unsigned char { more, whole, too_large };
  /// Takes a frame's body; `whole` fills `message`. `limit` is the longest message allowed.
  Result take(Kind kind, std::string_view body, std::size_t limit, std::string* message);

 private:
  std::string parts_;
  bool open_ = false;
};

/// A received frame.
struct Frame {
  std::string route;  ///< of the sender, on a ROUTER
  zmq::message_t message;
  Kind kind() const { return static_cast<Kind>(*message.data<unsigned char>()); }
  std::string_view body() const { return {message.data<char>() + 1, message.size() - 1}; }
};
/// Takes the next frame of a ROUTER or DEALER; false where there is none. Frames without a kind are skipped.
bool receive_frame(zmq::socket_t& socket, bool routed, Frame* frame);
/// Would `receive_frame` take one?
bool readable(zmq::socket_t& socket);

}  // namespace nestor::comm::link
