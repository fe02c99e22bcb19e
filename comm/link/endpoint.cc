#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nestor/comm/link/endpoint.h>

namespace nestor::comm::link {
namespace {

addrinfo* look_up(const std::string& host, const std::string& port, int flags, int* error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  *error = ::getaddrinfo(host == "*" ? nullptr : host.c_str(), port.c_str(), &hints, &list);
  return *error == 0 ? list : nullptr;
}

std::string numeric(const addrinfo& entry, const std::string& port) {
  char host[NI_MAXHOST];
  if (::getnameinfo(entry.ai_addr, entry.ai_addrlen, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return entry.ai_family == AF_INET6 ? "tcp://[" + std::string(host) + "]:" + port
                                     : "tcp://" + std::string(host) + ":" + port;
}

std::string words(int error, const std::string& shown) {
  switch (error) {
    case 0:
      return {};
    case ECONNREFUSED:
      return "refused by " + shown;
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "no route to " + shown;
    case ETIMEDOUT:
      return "no answer from " + shown;
    case ENOENT:
      return "no socket at " + shown;
    default:
      return shown + ": " + std::generic_category().message(error);
  }
}

int try_connect(const sockaddr* address, socklen_t length) {
  int descriptor = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return errno;
  int error = ::connect(descriptor, address, length) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EAGAIN) {
    pollfd polled{descriptor, POLLOUT, 0};
    socklen_t size = sizeof error;
    if (::poll(&polled, 1, 250) <= 0) {
      error = ETIMEDOUT;
    } else if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  ::close(descriptor);
  return error;
}

}  // namespace

Endpoint parse_endpoint(const std::string& text) {
  Endpoint endpoint;
  if (text.starts_with("ipc://")) {
    endpoint.ipc = true;
    endpoint.path = text.substr(6);
    if (endpoint.path.empty() || endpoint.path.size() >= sizeof(sockaddr_un::sun_path))
      throw std::runtime_error(text + ": a socket's path has 1 to " +
                               std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
    return endpoint;
  }
  auto colon = text.rfind(':');
  if (!text.starts_with("tcp://") || colon == std::string::npos || colon < 7)
    throw std::runtime_error("\"" + text + "\" is no endpoint (tcp://HOST:PORT or ipc:///PATH)");
  endpoint.host = text.substr(6, colon - 6);
  endpoint.port = text.substr(colon + 1);
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  unsigned port = 0;
  auto end = endpoint.port.data() + endpoint.port.size();
  auto [rest, error] = std::from_chars(endpoint.port.data(), end, port);
  if (error != std::errc() || rest != end || port > 65535)
    throw std::runtime_error(text + ": \"" + endpoint.port + "\" is no port");
  return endpoint;
}

Addresses resolve(const Endpoint& endpoint) {
  Addresses found;
  if (endpoint.ipc) {
    found.endpoints.push_back("ipc://" + endpoint.path);
    return found;
  }
  int error = 0;
  auto* list = look_up(endpoint.host, endpoint.port, endpoint.host == "*" ? AI_PASSIVE : 0, &error);
  for (auto* entry = list; entry; entry = entry->ai_next) {
    auto text = numeric(*entry, endpoint.port);
    auto& all = found.endpoints;
    if (!text.empty() && std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
  }
  if (list) ::freeaddrinfo(list);
  if (found.endpoints.empty())
    found.trouble = "cannot resolve " + endpoint.host + ": " + (error ? ::gai_strerror(error) : "no address");
  return found;
}

Resolution::Resolution(const Endpoint& endpoint) : state_(std::make_shared<State>()) {
  int error = 0;
  bool quick = endpoint.ipc;
  if (!quick) {
    auto* list = look_up(endpoint.host, endpoint.port, AI_NUMERICHOST, &error);
    quick = list != nullptr;
    if (list) ::freeaddrinfo(list);
  }
  auto work = [state = state_, endpoint] {
    auto addresses = resolve(endpoint);
    std::lock_guard lock(state->mutex);
    state->addresses = std::move(addresses);
    state->ready = true;
    state->done.signal();
  };
  // A name server that does not answer may hold a look-up for many seconds: nobody joins it.
  if (quick)
    work();
  else
    std::thread(work).detach();
}

bool Resolution::ready() const {
  std::lock_guard lock(state_->mutex);
  return state_->ready;
}

Addresses Resolution::take() {
  std::lock_guard lock(state_->mutex);
  return std::move(state_->addresses);
}

std::string connection_trouble(const std::string& address, const std::string& shown) {
  auto endpoint = parse_endpoint(address);
  if (endpoint.ipc) {
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    std::memcpy(local.sun_path, endpoint.path.data(), endpoint.path.size());
    auto length = sizeof(sa_family_t) + endpoint.path.size() + 1;
    if (local.sun_path[0] == '@') {  // abstract
      local.sun_path[0] = '\0';
      --length;
    }
    return words(try_connect(reinterpret_cast<sockaddr*>(&local), static_cast<socklen_t>(length)), shown);
  }
  int error = 0;
  auto* list = look_up(endpoint.host, endpoint.port, AI_NUMERICHOST, &error);
  if (!list) return "cannot resolve " + shown;
  auto text = words(try_connect(list->ai_addr, list->ai_addrlen), shown);
  ::freeaddrinfo(list);
  return text;
}

}  // namespace nestor::comm::link
