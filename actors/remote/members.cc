#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>
#include <nestor/actors/remote/version.h>

// Who is in the cluster: who may enter, and what the loss of one means for the others' calls.

namespace nestor::actors::remote {

void NodeCore::handle_hello(const std::string& peer, const wire::Hello& hello) {
  NodeInfo info;
  std::string refusal;
  try {
    Decoder decoder(hello.about());
    decoder(info).finish();
  } catch (const Error&) {
    refusal = "it does not speak this version's language";
  }
  if (hello.version() != version())
    refusal = "it runs nestor " + hello.version() + ", the head nestor " + version();
  else if (refusal.empty() && info.kind != "client" && hello.program() != program_digest())
    refusal = "it runs another build of the program (" + hello.program() + ") than the head (" + program_digest() + ")";
  const std::string key_name = peer.substr(0, peer.rfind('#'));
  if (refusal.empty() && events_.admit) refusal = events_.admit(info, key_name);

  bool again = false;
  if (refusal.empty()) {
    std::lock_guard lock(mutex_);
    if (info.kind == "client") info.name = "client" + std::to_string(++clients_);
    const auto known = joined_nodes_.find(info.name);
    again = known != joined_nodes_.end();
    // A dying process that connects once more must not push its successor out.
    if (again && known->second.generation > info.generation) refusal = "it was replaced";
  }
  wire::Envelope answer;
  answer.set_from(kHead);
  if (!refusal.empty()) {
    answer.mutable_refused()->set_cause(refusal);
    static_cast<void>(server_->send(peer, answer.SerializeAsString()));
    return server_->close(peer);
  }
  if (again) declare_lost(info.name, "it connected anew");  // what was under way is gone
  {
    std::lock_guard lock(mutex_);
    joined_nodes_[info.name] = info;
    peer_of_[info.name] = peer;
    node_of_[peer] = info.name;
  }
  answer.set_to(info.name);
  answer.mutable_welcome()->set_node(info.name);
  static_cast<void>(server_->send(peer, answer.SerializeAsString()));
  if (events_.joined) events_.joined(info);
}

void NodeCore::declare_lost(const std::string& node, const std::string& cause, const NodeInfo* only) {
  std::vector<std::string> others;
  std::string peer;
  {
    std::lock_guard lock(mutex_);
    const auto known = joined_nodes_.find(node);
    if (only != nullptr && (known == joined_nodes_.end() || known->second.pid != only->pid ||
                            known->second.generation != only->generation))
      return;
    if (known != joined_nodes_.end()) joined_nodes_.erase(known);
    if (const auto found = peer_of_.find(node); found != peer_of_.end()) {
      peer = found->second;
      node_of_.erase(peer);
      peer_of_.erase(found);
    }
    for (const auto& [name, link] : peer_of_) others.push_back(link);
  }
  if (!peer.empty()) close(peer);
  wire::Envelope notice;
  notice.set_from(kHead);
  notice.mutable_node_lost()->set_node(node);
  notice.mutable_node_lost()->set_cause(cause);
  const std::string bytes = notice.SerializeAsString();
  for (const std::string& other : others) static_cast<void>(transmit(other, bytes));
  forget(node, cause);
}

void NodeCore::forget(const std::string& node, const std::string& cause) {
  transfers_.forget(node);
  if (!node.empty()) transfers_.forget(direct_address(node));
  bulk_.forget(node.empty() ? "" : direct_address(node));
  close_direct(node);
  std::vector<std::shared_ptr<detail::Cell>> dead;
  std::vector<std::pair<std::string, OnReply>> asked;
  {
    std::lock_guard lock(mutex_);
    for (auto it = proxies_.begin(); it != proxies_.end();) {
      if (!node.empty() && it->first.first != node) {
        ++it;
        continue;
      }
      if (auto cell = it->second.lock()) dead.push_back(std::move(cell));
      it = proxies_.erase(it);
    }
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (!node.empty() && it->second.node != node) {
        ++it;
        continue;
      }
      asked.emplace_back(it->second.node, std::move(it->second.then));
      it = waiting_.erase(it);
    }
    for (auto& [actor, watchers] : watched_) {
      if (node.empty()) {
        watchers.clear();
      } else {
        watchers.erase(node);
      }
    }
  }
  for (auto& cell : dead) cell->died_elsewhere(cause);
  for (auto& [who, then] : asked) {
    wire::Reply reply;
    *reply.mutable_failure() = failure_of(died(who, cause), who);
    then(reply);
  }
}

}  // namespace nestor::actors::remote
