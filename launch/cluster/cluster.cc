#include <nestor/actors/error.h>
#include <nestor/launch/cluster/actor_host.h>
#include <nestor/launch/cluster/client.h>
#include <nestor/launch/cluster/cluster.h>
#include <nestor/launch/cluster/placement_actor.h>

namespace nestor {
namespace {

/// What the placement or its host says of an actor, as the actor's own trouble.
template <class Result>
Result answer(const std::string& actor, actors::Future<Result> future, std::chrono::nanoseconds limit) {
  try {
    return future.get_for(limit);
  } catch (const actors::CallFailed& error) {
    std::string what = error.what();
    for (const std::string& prefix :
         {std::string(launch::PlacementActor::kName) + ".", std::string(launch::ActorHost::kName) + ".", actor + ": "})
      if (what.starts_with(prefix)) what.erase(0, what.find(": ") + 2);
    throw actors::Error(actor, what);
  }
}

}  // namespace

struct Cluster::Impl {
  std::unique_ptr<launch::ClusterClient> client;  ///< null within a process of the cluster
  actors::Runtime* runtime = nullptr;
  actors::remote::Node* node = nullptr;
  actors::Handle<launch::PlacementActor> placement{};
};

Cluster::Cluster(const std::string& name) : impl_(std::make_unique<Impl>()) {
  impl_->client = std::make_unique<launch::ClusterClient>(name);
  impl_->runtime = &impl_->client->runtime();
  impl_->node = &impl_->client->node();
  impl_->placement = impl_->node->attach<launch::PlacementActor>("head", launch::PlacementActor::kName);
}

Cluster::Cluster(actors::Runtime& runtime) : impl_(std::make_unique<Impl>()) {
  impl_->runtime = &runtime;
  impl_->node = runtime.node();
  if (impl_->node == nullptr) throw actors::Error("cluster", "this process belongs to none", "join one by its name");
  impl_->placement = impl_->node->attach<launch::PlacementActor>("head", launch::PlacementActor::kName);
}

Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

actors::Runtime& Cluster::runtime() {
  return *impl_->runtime;
}

actors::remote::Node& Cluster::node() {
  return *impl_->node;
}

launch::ActorAddress Cluster::ask_for(ActorSpec spec, std::string type, std::string arguments) {
  launch::SpawnOrder order;
  order.spec = std::move(spec);
  order.type = std::move(type);
  order.arguments = std::move(arguments);
  order.owner = node().name();
  const std::string name = order.spec.name;
  return answer(name, impl_->placement.call(&launch::PlacementActor::spawn, std::move(order)), actors::kNoLimit);
}

launch::ActorAddress Cluster::locate(const std::string& name, std::chrono::nanoseconds limit) {
  return answer(name, impl_->placement.call(&launch::PlacementActor::find, name), limit);
}

void Cluster::kill(const std::string& name, const std::string& cause) {
  answer(name, impl_->placement.call(&launch::PlacementActor::kill, name, cause), actors::kNoLimit);
}

std::string Cluster::call(const std::string& actor, const std::string& method, const std::string& arguments) {
  const launch::ActorAddress address = locate(actor, std::chrono::seconds(30));
  const auto host = node().attach<launch::ActorHost>(address.node, launch::ActorHost::kName);
  return answer(actor, host.call(&launch::ActorHost::call, actor, method, arguments), actors::kNoLimit);
}

std::vector<launch::ActorRow> Cluster::actors() {
  return node().attach<launch::HeadActor>("head", "cluster").call(&launch::HeadActor::actors).get();
}

}  // namespace nestor
