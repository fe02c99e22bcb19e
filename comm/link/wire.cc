#include <algorithm>
#include <cerrno>
#include <cstring>

#include <nestor/comm/link/wire.h>

namespace nestor::comm::link {

Status send_frame(zmq::socket_t& socket, const std::string& route, Kind kind, std::string_view body) {
  zmq::message_t message(body.size() + 1);
  *message.data<unsigned char>() = static_cast<unsigned char>(kind);
  if (!body.empty()) std::memcpy(message.data<char>() + 1, body.data(), body.size());
  try {
    if (!route.empty()) {
      zmq::message_t head(route.data(), route.size());
      if (!socket.send(head, zmq::send_flags::dontwait | zmq::send_flags::sndmore))
        return {Code::misuse, "its queue is full (it reads more slowly than this side sends)"};
    }
    if (!socket.send(message, zmq::send_flags::dontwait))
      return {Code::misuse, "its queue is full (it reads more slowly than this side sends)"};
  } catch (const zmq::error_t& error) {
    return {Code::peer_lost, error.num() == EHOSTUNREACH ? "connection closed" : error.what()};
  }
  return {};
}

Status send_message(zmq::socket_t& socket, const std::string& route, std::string_view message) {
  if (message.size() <= kFragment) return send_frame(socket, route, Kind::whole, message);
  for (std::size_t begin = 0; begin < message.size(); begin += kFragment) {
    auto kind = begin == 0 ? Kind::first : begin + kFragment >= message.size() ? Kind::last : Kind::middle;
    auto status = send_frame(socket, route, kind, message.substr(begin, kFragment));
    if (!status.ok()) return status;
  }
  return {};
}

Assembly::Result Assembly::take(Kind kind, std::string_view body, std::size_t limit, std::string* message) {
  if (kind == Kind::whole || kind == Kind::first) {
    parts_.clear();
    open_ = kind == Kind::first;
  } else if (!open_) {
    return Result::more;
  }
  if (body.size() > limit || parts_.size() > limit - body.size()) return Result::too_large;
  if (kind == Kind::whole) {
    message->assign(body);
    return Result::whole;
  }
  parts_.append(body);
  if (kind != Kind::last) return Result::more;
  open_ = false;
  *message = std::move(parts_);
  parts_ = {};
  return Result::whole;
}

bool receive_frame(zmq::socket_t& socket, bool routed, Frame* frame) {
  for (;;) {
    if (routed) {
      zmq::message_t head;
      if (!socket.recv(head, zmq::recv_flags::dontwait)) return false;
      frame->route.assign(head.data<char>(), head.size());
      if (!head.more()) continue;
    }
    if (!socket.recv(frame->message, zmq::recv_flags::dontwait)) return false;
    bool alone = !frame->message.more();
    for (zmq::message_t rest; !alone;) {  // no link sends parts: skip them all
      if (!socket.recv(rest, zmq::recv_flags::dontwait) || !rest.more()) break;
    }
    if (alone && frame->message.size() > 0) return true;
  }
}

}  // namespace nestor::comm::link
