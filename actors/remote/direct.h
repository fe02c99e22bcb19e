#pragma once
// Inside actors/remote/.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <nestor/comm/link.h>

namespace nestor::actors::remote {

class NodeCore;
class Outbox;

/// Envelopes on a direct link have no sender's node: they come from and go to an address of the link itself.
inline std::string served_address(const std::string& peer) {
  return "@" + peer;
}
inline std::string direct_address(const std::string& node) {
  return "=" + node;
}
inline bool is_direct(const std::string& address) {
  return address.starts_with('@') || address.starts_with('=');
}
/// The node that an address leads to.
inline std::string node_of(const std::string& address) {
  return address.starts_with('=') ? address.substr(1) : address;
}

/// Where other members reach this one without the head.
class DirectServer final : public comm::LinkHandler {
 public:
  DirectServer(NodeCore& core, const std::string& endpoint, const comm::LinkKeys& keys,
               const comm::LinkOptions& options);
  ~DirectServer() override;
  /// Null once closed.
  std::shared_ptr<comm::LinkServer> link() const {
    std::lock_guard lock(mutex_);
    return link_;
  }
  void close() {
    std::unique_lock lock(mutex_);
    const auto link = std::move(link_);
    lock.unlock();
  }

  void connected(const std::string&) override {}
  void received(const std::string& peer, std::string message) override;
  void lost(const std::string& peer, const std::string& cause) override;

 private:
  NodeCore& core_;
  mutable std::mutex mutex_;
  std::shared_ptr<comm::LinkServer> link_;
};

/// A member's own link to another one.
class DirectLink final : public comm::LinkHandler {
 public:
  DirectLink(NodeCore& core, std::string node) : core_(core), node_(std::move(node)) {}
  void open(const std::string& endpoint, const std::string& public_key, const comm::LinkKeys& keys,
            const comm::LinkOptions& options);
  /// Blocks until its thread has ended: not from a callback.
  void close() {
    std::unique_lock lock(mutex_);
    const auto link = std::move(link_);
    lock.unlock();
  }
  /// Null before it is opened and once it is closed.
  std::shared_ptr<comm::LinkClient> link() const {
    std::lock_guard lock(mutex_);
    return link_;
  }
  /// Odd while it is up; every connection has a number of its own.
  std::uint64_t connection() const { return connection_.load(std::memory_order_acquire); }

  void connected(const std::string&) override;
  void received(const std::string&, std::string message) override;
  void lost(const std::string&, const std::string& cause) override;

 private:
  NodeCore& core_;
  const std::string node_;
  mutable std::mutex mutex_;
  std::shared_ptr<comm::LinkClient> link_;
  std::atomic<bool> opened_{false};
  std::atomic<std::uint64_t> connection_{0};
};

}  // namespace nestor::actors::remote
