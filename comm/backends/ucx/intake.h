#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <nestor/comm/backends/ucx/endpoints.h>
#include <nestor/comm/block_pool.h>
#include <nestor/comm/inbox.h>

namespace nestor::comm::ucx {

/// A message of several buffers, or of a large one, on its way.
struct Assembly {
  Address address;
  Message message;
  std::vector<bool> filled;
  std::size_t missing = 0;
  bool posted = false;
  std::vector<Pull*> pulls;  ///< of its large buffers, until each is finished
  std::size_t held = 0;      ///< cost of what has arrived while nobody had posted it
};

/// What arrives at an end: checks it, receives it, hands complete messages to the inbox. Guarded by the engine's turn.
class Intake {
 public:
  Intake(Engine& engine, Endpoints& endpoints, Inbox& inbox, std::int32_t lane, std::uint64_t secret,
         std::size_t window, std::size_t keep);
  ~Intake();

  Status post(std::int32_t from, const Key& key);
  /// Arrivals of this address stir the lane.
  void await(const Address* address) { awaited_ = address; }
  /// Allocates ahead what a small message needs, while there is nothing better to do.
  void prepare();
  /// Empties a message that is about to be overwritten, and takes its storage for one that will arrive.
  void reuse(Message& message);
  /// Begins the transfers that flow control lets begin, and tells peers what they wait to hear.
  void chores(Peer& peer);
  /// Forgets what of the peer is on its way. Before its endpoint is closed, since offers are answered over it.
  void forget(Peer& peer);
  /// After the inbox has refused generations below `generation` and has given up `dropped`.
  void drop_below(std::uint64_t generation, const std::vector<KeyTable::Dropped>& dropped);
  /// Some of the message has arrived.
  bool on_its_way(const Address& address) const { return assemblies_.count(address) != 0; }

  std::uint64_t foreign() const { return foreign_; }
  std::uint64_t malformed() const { return malformed_; }
  const std::shared_ptr<BlockPool>& pool() const { return pool_; }

 private:
  struct Hash {
    std::size_t operator()(const Address& address) const { return KeyTable::hash(address); }
  };
  using Assemblies = std::unordered_map<Address, std::unique_ptr<Assembly>, Hash>;

  static ucs_status_t on_data(void* self, const void* header, std::size_t header_length, void* data, std::size_t length,
                              const ucp_am_recv_param_t* param);
  static ucs_status_t on_note(void* self, const void* header, std::size_t header_length, void* data, std::size_t length,
                              const ucp_am_recv_param_t* param);
  static void on_pulled(void* request, ucs_status_t status, std::size_t length, void* pull);
  ucs_status_t arrive(const void* header, std::size_t header_length, void* data, std::size_t length,
                      std::uint64_t attributes);
  /// The sender, where the message is the cluster's and of a living incarnation.
  Peer* sender(std::uint64_t secret, std::int32_t from, std::uint64_t incarnation);
  void receive(const Envelope& envelope, const void* header, const void* data, std::size_t length, Buffer* out);
  Assembly* assembly(const Address& address, std::size_t parts);
  void filled(Assembly& assembly);  ///< one part more; the last one delivers the message
  void matched(Peer& peer, std::size_t cost);
  void begin(Peer& peer, Pull& pull);
  void finish(Pull& pull, bool ok);
  void abandon(Assembly& assembly, Peer& peer);

  Engine& engine_;
  Endpoints& endpoints_;
  Inbox& inbox_;
  const std::int32_t lane_;
  const std::uint64_t secret_;
  const std::size_t window_;
  std::shared_ptr<BlockPool> pool_;
  Assemblies assemblies_;
  std::list<Pull> orphans_;            ///< transfers of peers given up, until UCX lets go of their memory
  Message spare_;                      ///< of one buffer
  std::shared_ptr<void> spare_block_;  ///< kLendBytes
  const Address* awaited_ = nullptr;
  std::uint64_t foreign_ = 0, malformed_ = 0;
};

}  // namespace nestor::comm::ucx
