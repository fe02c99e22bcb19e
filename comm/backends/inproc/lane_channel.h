#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nestor/comm/channel.h>
#include <nestor/comm/inbox.h>

namespace nestor::comm::inproc {

/// One lane's end of an in-process fabric.
class LaneChannel final : public Channel {
 public:
  using Lanes = std::vector<std::unique_ptr<LaneChannel>>;

  /// `lanes` are all ends of the fabric, this one among them; they outlive it.
  LaneChannel(std::int32_t lane, const Lanes& lanes)
      : lane_(lane), lanes_(lanes), inbox_(lane, static_cast<std::int32_t>(lanes.size())) {}

  Status send(std::int32_t to, const Key& key, Message message, Deadline deadline) override;
  Status post_recv(std::int32_t from, const Key& key) override;
  Status wait(std::int32_t from, const Key& key, Deadline deadline, Message* out) override;
  bool poll(std::int32_t from, const Key& key) override;
  void abort(std::uint64_t generation, const std::string& cause) override;
  void set_generation(std::uint64_t generation) override;
  Counters counters() const override;

 private:
  /// Called by the sender's end, in the sender's thread.
  Status deliver(const Address& address, Message& message);
  void refuse_below(std::uint64_t generation, const std::string* abort_cause);
  /// The brief part of a wait, without the lock: until wake_ or for spin_limit_ polls.
  void spin();

  const std::int32_t lane_;
  const Lanes& lanes_;

  mutable std::mutex mutex_;
  std::condition_variable arrival_;
  Inbox inbox_;
  Address awaited_;                ///< the key that the lane's thread waits for
  bool waiting_ = false;           ///< the lane's thread is inside wait
  bool sleeping_ = false;          ///< ... and has stopped spinning
  std::atomic<bool> wake_{false};  ///< a hint to a spinning wait that the awaited key has changed state
  unsigned spin_limit_ = 256;      ///< polls before sleeping; follows what paid off
  std::atomic<std::uint64_t> sent_messages_{0}, sent_bytes_{0};
};

}  // namespace nestor::comm::inproc
