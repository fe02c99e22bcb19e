#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>

namespace nestor::actors::remote {
namespace {

/// Constructs what other processes spawn.
class Spawner final : public Actor {};

/// A link of one's own to the other node comes about within this time, or calls go through the head meanwhile.
constexpr std::chrono::seconds kDirectLimit{1};

}  // namespace

Node::Node(Runtime& runtime, NodeInfo self, Head head, NodeEvents events, comm::LinkOptions link) {
  self.name = self.kind = "head";
  core_ = std::make_shared<NodeCore>(runtime, std::move(self), std::move(events), this);
  core_->spawner_ = runtime.spawn<Spawner>("node");
  core_->joined_ = true;
  runtime.registry()->set_node(this);
  core_->start(head, link);
}

Node::Node(Runtime& runtime, NodeInfo self, Member member, NodeEvents events, comm::LinkOptions link)
    : core_(std::make_shared<NodeCore>(runtime, std::move(self), std::move(events), this)) {
  core_->spawner_ = runtime.spawn<Spawner>("node");
  runtime.registry()->set_node(this);
  core_->start(member, link);
}

Node::~Node() {
  core_->registry_->set_node(nullptr);
  core_->stop();
}

std::string Node::name() const {
  std::lock_guard lock(core_->mutex_);
  return core_->self_.name;
}

std::string Node::endpoint() const {
  if (!core_->server_) throw Error("node", "only the head listens");
  return core_->server_->endpoint();
}

void Node::wait_joined(std::chrono::nanoseconds limit) {
  std::unique_lock lock(core_->mutex_);
  const auto deadline = detail::deadline_after(limit);
  core_->changed_.wait_until(lock, deadline, [this] { return core_->joined_ || !core_->refused_.empty(); });
  if (core_->joined_) return;
  if (!core_->refused_.empty()) throw Error("head", "refuses this process: " + core_->refused_);
  lock.unlock();
  const std::string trouble = core_->client_->trouble();
  throw Error("head", "cannot be joined: " + (trouble.empty() ? "it does not answer" : trouble));
}

ActorTypes& Node::types() {
  return core_->types_;
}

std::vector<NodeInfo> Node::nodes() const {
  std::vector<NodeInfo> nodes;
  std::lock_guard lock(core_->mutex_);
  for (const auto& [name, info] : core_->joined_nodes_) nodes.push_back(info);
  return nodes;
}

comm::LinkCounters Node::counters() const {
  return core_->server_ ? core_->server_->counters() : comm::LinkCounters{};
}

std::uint64_t Node::bulk_bytes() const {
  return core_->bulk_bytes();
}

void Node::declare_lost(const std::string& node, const std::string& cause) {
  core_->declare_lost(node, cause);
}

void Node::declare_lost(const NodeInfo& process, const std::string& cause) {
  core_->declare_lost(process.name, cause, &process);
}

std::pair<std::string, std::string> Node::address_of(const std::shared_ptr<detail::Cell>& cell) const {
  if (const auto* proxy = dynamic_cast<RemoteActor*>(cell->elsewhere())) return {proxy->node(), proxy->actor()};
  return {name(), cell->name()};
}

std::shared_ptr<detail::Cell> Node::attach_cell(const std::string& node, const std::string& actor,
                                                const detail::ActorType& type) {
  if (node != name()) return core_->proxy(node, actor, type);
  auto cell = core_->runtime_.registry()->find(actor);
  if (cell->type().type != type.type) throw Error(actor, "is a " + cell->type_name() + ", not a " + type.name);
  return cell;
}

std::shared_ptr<detail::Cell> Node::find_cell(const std::string& node, const std::string& actor,
                                              const detail::ActorType& type, std::chrono::nanoseconds limit) {
  if (node == name()) return attach_cell(node, actor, type);
  core_->open_direct(node);
  wire::Envelope envelope;
  envelope.set_to(node);
  envelope.mutable_watch()->set_id(core_->next_id());
  envelope.mutable_watch()->set_actor(actor);
  const std::string found = core_->request(envelope, envelope.watch().id(), actor, limit);
  if (found != type.name) throw Error(actor, "is a " + found + ", not a " + type.name, "find it by its own type");
  if (!in_link_thread()) core_->await_direct(node, kDirectLimit);
  return core_->proxy(node, actor, type);
}

void Node::end(const std::string& node, const std::string& actor, const std::string& cause) {
  wire::Envelope envelope;
  envelope.set_to(node);
  envelope.mutable_end()->set_actor(actor);
  envelope.mutable_end()->set_cause(cause);
  core_->send(envelope);
}

void Node::spawn_on(const std::string& node, const std::string& type, const ActorOptions& options,
                    std::string arguments) {
  if (node == name()) {
    Decoder decoder(arguments, this);
    return core_->types_.find(type)(core_->runtime_, options, decoder);
  }
  wire::Envelope envelope;
  envelope.set_to(node);
  wire::Spawn& spawn = *envelope.mutable_spawn();
  spawn.set_id(core_->next_id());
  spawn.set_type(type);
  spawn.set_name(options.name);
  spawn.set_mailbox_limit(options.mailbox_limit);
  spawn.set_arguments(std::move(arguments));
  core_->request(envelope, spawn.id(), options.name, std::chrono::seconds(60));
}

}  // namespace nestor::actors::remote
