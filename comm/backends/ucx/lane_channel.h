#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <nestor/comm/backends/ucx/endpoints.h>
#include <nestor/comm/backends/ucx/intake.h>
#include <nestor/comm/inbox.h>
#include <nestor/comm/ucx.h>

namespace nestor::comm::ucx {

/// The last few thousand keys sent, to report a second send. Forgets: a key may push another out.
class SentKeys {
 public:
  /// Where a key is remembered, if it is.
  Address& place(const Address& address) { return slots_[KeyTable::hash(address) & (kSlots - 1)]; }

 private:
  static constexpr std::size_t kSlots = 4096;
  std::vector<Address> slots_ = std::vector<Address>(kSlots);
};

/// One lane's end over UCX.
class LaneChannel final : public UcxChannel, private Engine::Client {
 public:
  LaneChannel(std::int32_t lane, std::int32_t lanes, const UcxOptions& options, std::shared_ptr<Context> context);
  ~LaneChannel() override;

  Status send(std::int32_t to, const Key& key, Message message, Deadline deadline) override;
  Status post_recv(std::int32_t from, const Key& key) override;
  Status wait(std::int32_t from, const Key& key, Deadline deadline, Message* out) override;
  bool poll(std::int32_t from, const Key& key) override;
  void abort(std::uint64_t generation, const std::string& cause) override;
  void set_generation(std::uint64_t generation) override;
  Counters counters() const override;

  const std::string& address() const override { return address_; }
  void set_peer(std::int32_t lane, const std::string& address) override;
  void drop_peer(std::int32_t lane, const std::string& cause) override;
  std::string transports() const override;
  std::uint64_t foreign_dropped() const override;
  std::uint64_t malformed_dropped() const override;

 private:
  void chores() override;
  void watch(Clock::time_point now) override;
  void process_ended(std::int32_t lane) override;
  bool expecting() const override;

  Status check(const Message& message) const;
  bool room(const Peer& peer, std::size_t cost) const {
    return peer.under_way == 0 || peer.under_way + cost <= options_.window + peer.overdraft;
  }
  Status wait_for_room(Peer& peer, const Key& key, std::size_t cost, Deadline deadline);
  Status send_to_self(const Key& key, Message& message);
  bool send_part(Peer& peer, const Key& key, const Message& message, std::size_t part);
  void lose(Peer& peer, const std::string& cause);
  Status gone(const Peer& peer) const;
  void refuse_below(std::uint64_t generation, const std::string* abort_cause);

  const std::int32_t lane_;
  const UcxOptions options_;
  const std::uint64_t incarnation_;
  mutable Engine engine_;
  Inbox inbox_;
  Endpoints endpoints_;
  Intake intake_;
  SentKeys sent_keys_;
  std::uint64_t sent_messages_ = 0, sent_bytes_ = 0;
  std::int32_t awaited_from_ = -1;  ///< the lane waits for a message of that peer
  Clock::time_point next_watch_{};
  std::string address_;
};

}  // namespace nestor::comm::ucx
