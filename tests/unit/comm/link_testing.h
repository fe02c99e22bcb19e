#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/link.h>

namespace nestor::comm {

/// Writes down what a link tells it; `wait` ends when a condition on the notes holds.
class LinkNotes : public LinkHandler {
 public:
  struct Message {
    std::string peer, text;
  };
  std::vector<std::string> peers;                         ///< connected, in order
  std::vector<std::pair<std::string, std::string>> gone;  ///< lost: peer and cause
  std::vector<Message> messages;
  std::size_t bytes = 0;
  /// Called in the link's thread for each message, before it is noted. Set it before the link is opened.
  std::function<void(const std::string& peer, const std::string& message)> on_message;

  void connected(const std::string& peer) override {
    std::lock_guard lock(mutex);
    peers.push_back(peer);
    changed.notify_all();
  }
  void received(const std::string& peer, std::string message) override {
    if (on_message) on_message(peer, message);
    std::lock_guard lock(mutex);
    bytes += message.size();
    messages.push_back({peer, std::move(message)});
    changed.notify_all();
  }
  void lost(const std::string& peer, const std::string& cause) override {
    std::lock_guard lock(mutex);
    gone.emplace_back(peer, cause);
    changed.notify_all();
  }

  template <class Condition>
  [[nodiscard]] bool wait(Condition condition, std::chrono::seconds limit = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, limit, condition);
  }
  [[nodiscard]] bool wait_peers(std::size_t count) {
    return wait([&] { return peers.size() >= count; });
  }
  [[nodiscard]] bool wait_gone(std::size_t count) {
    return wait([&] { return gone.size() >= count; });
  }
  [[nodiscard]] bool wait_messages(std::size_t count) {
    return wait([&] { return messages.size() >= count; });
  }

  std::mutex mutex;
  std::condition_variable changed;
};

/// Calls `condition` until it holds: for what no handler tells of (counters, trouble).
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::seconds limit = std::chrono::seconds(20)) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  for (auto until = std::chrono::steady_clock::now() + limit; !condition();) {
    if (std::chrono::steady_clock::now() > until) return false;
    never.wait_for(lock, std::chrono::milliseconds(2));
  }
  return true;
}

/// A server that lets one key in, as "worker".
struct LinkPair {
  LinkKeys server_keys = make_link_keys(), client_keys = make_link_keys();
  LinkNotes at_server, at_client;
  LinkOptions options;
  std::unique_ptr<LinkServer> server;
  std::unique_ptr<LinkClient> client;

  void listen(const std::string& endpoint = "tcp://127.0.0.1:0") {
    server = listen_link(endpoint, server_keys, at_server, options);
    server->allow(client_keys.public_key, "worker");
  }
  void connect(const std::string& endpoint = {}) {
    client = connect_link(endpoint.empty() ? server->endpoint() : endpoint, server_keys.public_key, client_keys,
                          at_client, options);
  }
  void open(const std::string& endpoint = "tcp://127.0.0.1:0") {
    listen(endpoint);
    connect();
    ASSERT_TRUE(at_server.wait_peers(1));
    ASSERT_TRUE(at_client.wait_peers(1));
  }
};

}  // namespace nestor::comm
