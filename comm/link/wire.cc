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
      if (!uninterrupted([&] { return socket.send(head, zmq::send_flags::dontwait | zmq::send_flags::sndmore); }))
        return {Code::misuse, "its queue is full (it reads more slowly than this side sends)"};
    }
    if (!uninterrupted([&] { return socket.send(message, zmq::send_flags::dontwait); }))
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

bool readable(zmq::socket_t& socket) {
  return uninterrupted([&] { return (socket.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; });
}

bool receive_frame(zmq::socket_t& socket, bool routed, Frame* frame) {
  const auto take = [&](zmq::message_t& part) {
    return uninterrupted([&] { return socket.recv(part, zmq::recv_flags::dontwait); }).has_value();
  };
  for (;;) {
    if (routed) {
      zmq::message_t head;
      if (!take(head)) return false;
      frame->route.assign(head.data<char>(), head.size());
      if (!head.more()) continue;
    }
    if (!take(frame->message)) return false;
    bool alone = !frame->message.more();
    for (zmq::message_t rest; !alone;) {  // no link sends parts: skip them all
      if (!take(rest) || !rest.more()) break;
    }
    if (alone && frame->message.size() > 0) return true;
  }
}

}  // namespace nestor::comm::link
