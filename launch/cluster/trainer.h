#pragma once

#include <cstdint>
#include <memory>

#include <nestor/actors/actor.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/remote/node.h>
#include <nestor/launch/cluster/job_control.h>
#include <nestor/launch/cluster/rows.h>
#include <nestor/launch/cluster/settings.h>
#include <nestor/launch/run.h>

namespace nestor::launch {

class HeadActor;

/// The actor of a training on the cluster: runs it in its own thread, in the head process.
class Trainer final : public actors::Actor {
 public:
  struct Place {
    actors::remote::Node* node;
    actors::Handle<HeadActor> head;
    ModelBuilder build;
    std::int32_t lanes;
    ClusterSettings settings;
  };
  Trainer(Place place, std::shared_ptr<JobControl> control, TrainRequest request);
  /// Returns when the training has ended, however; `control` then says how.
  void run();

 private:
  const Place place_;
  const std::shared_ptr<JobControl> control_;
  const TrainRequest request_;
};

}  // namespace nestor::launch
