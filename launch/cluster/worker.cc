#include <algorithm>
#include <chrono>
#include <stdexcept>

#include <nestor/actors/error.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/worker.h>
#include <nestor/launch/config.h>
#include <nestor/launch/training_set.h>

namespace nestor::launch {

using namespace std::chrono_literals;

Worker::Worker(std::int32_t number, comm::UcxOptions transport, ModelBuilder build)
    : number_(number), transport_(std::move(transport)), build_(std::move(build)) {}

void Worker::describe(actors::MethodTable<Worker>& table) {
  table.type("worker")
      .method("open", &Worker::open)
      .method("connect", &Worker::connect)
      .method("drop_peer", &Worker::drop_peer)
      .method("close", &Worker::close)
      .method("transports", &Worker::transports);
}

std::string Worker::executor_name(std::int32_t worker, std::uint64_t incarnation) {
  return "lane" + std::to_string(worker) + "." + std::to_string(incarnation);
}

void Worker::end_executor(const std::string& why) {
  if (!executor_) return;
  auto ended = executor_.stop();
  if (!ended.wait_for(30s)) executor_.kill(why);
  executor_ = {};
  channel_.reset();
}

std::string Worker::open(Opening opening) {
  end_executor("another job takes its lane");
  const auto mine = std::find(opening.workers.begin(), opening.workers.end(), number_);
  if (mine == opening.workers.end()) throw actors::Error(name(), "is no lane of this job");
  workers_ = opening.workers;
  lane_ = static_cast<std::int32_t>(mine - opening.workers.begin());
  const std::string made_from = opening.config + '\n' + opening.vocabulary;
  if (!spec_ || config_read_ != made_from) {
    const TrainConfig config = read_config(opening.config, opening.source, {});
    TrainingSet set = load_training_set(config, build_, opening.vocabulary);
    spec_ = std::make_shared<const actors::JobSpec>(actors::JobSpec{set.model, set.dataset, config.schedule,
                                                                    config.optimizer, config.run.seed, config.run.dtype,
                                                                    config.run.step_deadline});
    config_read_ = made_from;
  }
  try {
    channel_ = comm::open_ucx_channel(lane_, static_cast<std::int32_t>(workers_.size()), transport_);
  } catch (const std::runtime_error& error) {
    throw actors::Error("lane" + std::to_string(number_), error.what(),
                        "see --transports, --net-devices and --port-range of nestor up");
  }
  executor_ = runtime().spawn<actors::Executor>(executor_name(number_, opening.incarnation), lane_, spec_,
                                                std::shared_ptr<comm::Channel>(channel_));
  return channel_->address();
}

void Worker::connect(std::map<std::int32_t, std::string> addresses) {
  if (!channel_) throw actors::Error(name(), "has no job to connect", "open one first");
  for (const auto& [lane, address] : addresses)
    if (lane != lane_) channel_->set_peer(lane, address);
}

void Worker::drop_peer(std::int32_t worker, std::string cause) {
  const auto peer = std::find(workers_.begin(), workers_.end(), worker);
  if (channel_ && worker != number_ && peer != workers_.end())
    channel_->drop_peer(static_cast<std::int32_t>(peer - workers_.begin()), cause);
}

void Worker::close() {
  end_executor("its job has ended");
}

std::string Worker::transports() const {
  return channel_ ? channel_->transports() : "";
}

}  // namespace nestor::launch
