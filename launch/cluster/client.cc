#include <unistd.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/client.h>
#include <nestor/launch/cluster/cluster_file.h>
#include <nestor/launch/cluster/cluster_folder.h>
#include <nestor/launch/cluster/settings.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>

namespace nestor::launch {

using namespace std::chrono_literals;

ClusterClient::ClusterClient(const std::string& name) {
  const ClusterFolder folder = ClusterFolder::find_running(name);
  name_ = folder.name();
  const auto state = folder.living();
  if (!state) throw InputError("cluster " + name_, "does not run", "start it with nestor up");
  ClusterSettings settings = ClusterSettings::from_environment();
  if (settings.transports.empty())
    settings.transports = read_cluster_file(read_text(folder.cluster_file()), "cluster.yaml").transports();
  actors::remote::NodeInfo self;
  self.kind = "client";
  self.pid = ::getpid();
  actors::remote::Node::Member member{state->endpoint, folder.read_keys("head").public_key, folder.read_keys("client")};
  member.transport = settings.ucx(0);
  node_ = std::make_unique<actors::remote::Node>(runtime_, self, member, actors::remote::NodeEvents{}, settings.link());
  try {
    node_->wait_joined(10s);
    head_ = node_->find<HeadActor>("head", "cluster");
  } catch (const actors::Error& error) {
    throw WorkError("cluster " + name_, error.what(), "head pid " + std::to_string(state->pid) + "; see nestor logs");
  }
}

}  // namespace nestor::launch
