#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/client.h>
#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/error.h>

namespace nestor::launch {

using namespace std::chrono_literals;

ClusterClient::ClusterClient(const std::string& name) {
  const ClusterFolder folder = ClusterFolder::find_running(name);
  name_ = folder.name();
  const auto state = folder.living();
  if (!state) throw InputError("cluster " + name_, "does not run", "start it with nestor up");
  const ClusterSettings settings = ClusterSettings::from_environment();
  actors::remote::NodeInfo self;
  self.kind = "client";
  self.pid = ::getpid();
  node_ = std::make_unique<actors::remote::Node>(
      runtime_, self,
      actors::remote::Node::Member{state->endpoint, folder.read_keys("head").public_key, folder.read_keys("client")},
      actors::remote::NodeEvents{}, settings.link());
  try {
    node_->wait_joined(10s);
    head_ = node_->find<HeadActor>("head", "cluster");
  } catch (const actors::Error& error) {
    throw WorkError("cluster " + name_, error.what(), "head pid " + std::to_string(state->pid) + "; see nestor logs");
  }
}

}  // namespace nestor::launch
