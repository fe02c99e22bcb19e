#pragma once

#include <memory>
#include <string>

#include <nestor/actors/handle.h>
#include <nestor/actors/remote/node.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/head.h>
#include <nestor/launch/cluster/rows.h>

namespace nestor::launch {

/// This process as a client of a running cluster. Leaving it, however, leaves the cluster and its job running.
class ClusterClient {
 public:
  /// Joins the cluster of that name; the only one that runs where `name` is empty. Throws InputError where there is no
  /// such cluster, WorkError saying which check failed where it does not answer.
  explicit ClusterClient(const std::string& name);

  const std::string& name() const { return name_; }
  const actors::Handle<HeadActor>& head() const { return head_; }
  actors::remote::Node& node() { return *node_; }
  actors::Runtime& runtime() { return runtime_; }

 private:
  std::string name_;
  actors::Runtime runtime_;
  std::unique_ptr<actors::remote::Node> node_;
  actors::Handle<HeadActor> head_;
};

/// Follows the cluster's job to its end, with a progress bar: Ctrl-C asks it to finish its step, save and stop, a
/// second one aborts the step, a third one leaves it running. Returns its exit code, after printing what it failed
/// with.
int follow_job(ClusterClient& cluster);

}  // namespace nestor::launch
