#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>
#include <nestor/actors/remote/direct.h>
#include <nestor/actors/remote/letter.h>

// Links between members that do without the head: who opens them, and what their end means for calls under way.

namespace nestor::actors::remote {

DirectServer::DirectServer(NodeCore& core, const std::string& endpoint, const comm::LinkKeys& keys,
                           const comm::LinkOptions& options)
    : core_(core), link_(comm::listen_link(endpoint, keys, *this, options)) {}

DirectServer::~DirectServer() = default;

void DirectServer::received(const std::string& peer, std::string message) {
  core_.received_directly(served_address(peer), message);
}

void DirectServer::lost(const std::string& peer, const std::string&) {
  core_.direct_server_lost(served_address(peer));
}

void DirectLink::open(const std::string& endpoint, const std::string& public_key, const comm::LinkKeys& keys,
                      const comm::LinkOptions& options) {
  std::shared_ptr<comm::LinkClient> link = comm::connect_link(endpoint, public_key, keys, *this, options);
  {
    std::lock_guard lock(mutex_);
    link_ = std::move(link);
  }
  opened_ = true;
  opened_.notify_all();
}

void DirectLink::connected(const std::string&) {
  opened_.wait(false);
  ++connection_;
  core_.direct_changed();
}

void DirectLink::received(const std::string&, std::string message) {
  core_.received_directly(direct_address(node_), message);
}

void DirectLink::lost(const std::string&, const std::string& cause) {
  ++connection_;
  core_.direct_link_lost(node_, cause);
}

// --- the node's side ---

void NodeCore::serve_directly(const Node::Member& member, const comm::LinkOptions& link) {
  try {
    direct_server_ = std::make_unique<DirectServer>(*this, member.listen, member.keys, link);
  } catch (const std::exception&) {
    return;  // the address is not this machine's, say: then all goes through the head
  }
  for (const auto& [key, owner] : member.allowed) direct_server_->link()->allow(key, owner);
  self_.endpoint = direct_server_->link()->endpoint();
  self_.public_key = member.keys.public_key;
}

void NodeCore::handle_where(const wire::Envelope& envelope) {
  wire::Direct direct;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = joined_nodes_.find(envelope.where().node()); found != joined_nodes_.end()) {
      direct.set_endpoint(found->second.endpoint);
      direct.set_public_key(found->second.public_key);
    }
  }
  reply(envelope.from(), envelope.where().id(), "", {direct.SerializeAsString(), {}}, nullptr, true);
}

void NodeCore::open_direct(const std::string& node) {
  if (head_ || node == "head") return;
  {
    std::lock_guard lock(mutex_);
    if (!direct_.try_emplace(node).second) return;
  }
  wire::Envelope envelope;
  envelope.mutable_where()->set_id(next_id());
  envelope.mutable_where()->set_node(node);
  ask(envelope, envelope.where().id(), [weak = weak_from_this(), node](const wire::Reply& reply) {
    auto core = weak.lock();
    if (!core) return;
    wire::Direct direct;
    if (!reply.has_failure() && direct.ParseFromString(reply.result()) && !direct.endpoint().empty()) {
      auto link = std::make_shared<DirectLink>(*core, node);
      try {
        link->open(direct.endpoint(), direct.public_key(), core->keys_, core->link_options_);
        std::lock_guard lock(core->mutex_);
        if (const auto slot = core->direct_.find(node); slot != core->direct_.end()) slot->second.link = link;
      } catch (const std::exception&) {
      }
    }
    {
      std::lock_guard lock(core->mutex_);
      if (const auto slot = core->direct_.find(node); slot != core->direct_.end())
        slot->second.impossible = !slot->second.link;
    }
    core->direct_changed();
  });
}

void NodeCore::await_direct(const std::string& node, std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] {
    const auto slot = direct_.find(node);
    return slot == direct_.end() || slot->second.impossible ||
           (slot->second.link && slot->second.link->connection() % 2 == 1);
  });
}

std::shared_ptr<DirectLink> NodeCore::direct_to(const std::string& node) {
  std::lock_guard lock(mutex_);
  const auto slot = direct_.find(node);
  return slot == direct_.end() ? nullptr : slot->second.link;
}

void NodeCore::direct_changed() {
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

void NodeCore::direct_server_lost(const std::string& address) {
  transfers_.forget(address);
  bulk_.forget(address);
  std::lock_guard lock(mutex_);
  outboxes_.erase(address);
  for (auto& [actor, watchers] : watched_) watchers.erase(address);
}

void NodeCore::direct_link_lost(const std::string& node, const std::string& cause) {
  transfers_.forget(direct_address(node));
  bulk_.forget(direct_address(node));
  std::vector<std::shared_ptr<detail::Cell>> proxies;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [address, weak] : proxies_)
      if (address.first == node)
        if (auto cell = weak.lock()) proxies.push_back(std::move(cell));
  }
  changed_.notify_all();
  for (const auto& cell : proxies) static_cast<RemoteActor*>(cell->elsewhere())->direct_lost();
  if (proxies.empty() || !spawner_) return;
  // The head knows what became of the process; where it says nothing, the link alone is gone.
  spawner_.run_after(kObituaryWait, [proxies, cause](Actor&) {
    for (const auto& cell : proxies)
      static_cast<RemoteActor*>(cell->elsewhere())->fail_lost("its link broke: " + cause);
  });
}

// --- what does not go by the link itself ---

Bulk::Hooks NodeCore::bulk_hooks() {
  Bulk::Hooks hooks;
  hooks.send = [this](wire::Envelope& envelope) { return send_whole(envelope, true); };
  hooks.sent_by_link = [this](const std::string& to) { return outbox(to)->sent(); };
  hooks.arrived = [this](Letter& letter, const std::string& from) {
    begin_callback();
    letter.envelope.set_from(from);
    try {
      handle(letter);
    } catch (const std::exception& error) {
      undeliverable(letter.envelope, error.what());
    }
  };
  hooks.carried = [this](const LetterPtr& letter) { transfers_.carried(letter); };
  hooks.unsent = [this](const std::vector<LetterPtr>& letters) { transfers_.unsent(letters); };
  hooks.lost = [this](const std::vector<LetterPtr>& letters, const std::string& cause) {
    letters_lost(transfers_.lost(letters), cause);
  };
  hooks.idle = [this] { memory_->trim(); };
  hooks.notice = events_.notice;
  return hooks;
}

void NodeCore::letters_lost(const std::vector<LetterPtr>& letters, const std::string& cause) {
  for (const auto& letter : letters) {
    const wire::Envelope& envelope = letter->envelope;
    if (envelope.has_reply()) {
      no_answer(envelope.to(), envelope.reply().id(), envelope.reply().actor(), "its answer was lost: " + cause);
      continue;
    }
    std::shared_ptr<detail::Cell> cell;
    {
      std::lock_guard lock(mutex_);
      if (const auto found = proxies_.find({node_of(envelope.to()), envelope.call().actor()}); found != proxies_.end())
        cell = found->second.lock();
    }
    if (!cell) continue;
    // Where the process has died, the head knows of what.
    static_cast<RemoteActor*>(cell->elsewhere())->argument_lost(envelope.call().id());
    if (spawner_)
      spawner_.run_after(kObituaryWait, [cell, cause](Actor&) {
        static_cast<RemoteActor*>(cell->elsewhere())->fail_lost("its arguments were lost: " + cause);
      });
  }
}

/// Closes the links to a node that is gone, in a thread that may wait for theirs.
namespace {

/// Links that are closed where this ends, run or abandoned; the node that they call back lives until then.
class Closing {
 public:
  Closing(std::shared_ptr<NodeCore> core, std::vector<std::shared_ptr<DirectLink>> links)
      : core_(std::move(core)), links_(std::move(links)) {}
  ~Closing() {
    for (const auto& link : links_) link->close();
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

 private:
  const std::shared_ptr<NodeCore> core_;
  const std::vector<std::shared_ptr<DirectLink>> links_;
};

}  // namespace

void NodeCore::close_direct(const std::string& node) {
  std::vector<std::shared_ptr<DirectLink>> links;
  {
    std::lock_guard lock(mutex_);
    for (auto slot = direct_.begin(); slot != direct_.end();) {
      if (!node.empty() && slot->first != node) {
        ++slot;
        continue;
      }
      outboxes_.erase(direct_address(slot->first));
      if (slot->second.link) links.push_back(std::move(slot->second.link));
      slot = direct_.erase(slot);
    }
  }
  if (links.empty()) return;
  // Proxies may hold the links for longer than this node lives: so they are closed, not merely let go, and not in their
  // own threads.
  if (spawner_)
    spawner_.run([closing = std::make_shared<Closing>(shared_from_this(), std::move(links))](Actor&) mutable {
      closing.reset();
    });
}

}  // namespace nestor::actors::remote
