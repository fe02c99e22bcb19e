#include <filesystem>
#include <iterator>
#include <utility>

#include <nestor/actors/error.h>
#include <nestor/launch/attach.h>
#include <nestor/launch/cluster/cluster.h>
#include <nestor/launch/config.h>
#include <nestor/launch/driver/cluster_target.h>
#include <nestor/launch/driver/waiting.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/training_set.h>

namespace nestor::launch {

ClusterTarget::ClusterTarget(const std::string& cluster) : client_(cluster) {
  if (status().job.state != "none") next_ = client_.head().call(&HeadActor::look).get().next;
}

void ClusterTarget::start(TrainConfig config, const std::string& source, RunFolder::Open how,
                          const Listener& listener) {
  config.run.dir = std::filesystem::absolute(config.run.dir);
  TrainRequest request{write_config(config), source, static_cast<std::uint8_t>(how), true};
  client_.head().call(&HeadActor::train, std::move(request)).get();
  next_ = 0;
  wait(client_.head().call(&HeadActor::pause), listener);
}

JobRow ClusterTarget::wait(actors::Future<JobRow> done, const Listener& listener) {
  const auto& head = client_.head();
  const JobWaits job{[&] { return head.call(&HeadActor::look).get(); },
                     [&](std::uint64_t next) { return head.call(&HeadActor::output, next); },
                     [&] { return head.call(&HeadActor::pause); }};
  return wait_for(std::move(done), job, next_, listener);
}

JobRow ClusterTarget::step(std::int64_t steps, const Listener& listener) {
  return wait(client_.head().call(&HeadActor::grant, steps), listener);
}

JobRow ClusterTarget::run(const Listener& listener) {
  return wait(client_.head().call(&HeadActor::run_on), listener);
}

JobRow ClusterTarget::pause(const Listener& listener) {
  return wait(client_.head().call(&HeadActor::pause), listener);
}

ClusterRow ClusterTarget::status() {
  return client_.head().call(&HeadActor::status).get();
}

std::vector<ActorRow> ClusterTarget::actors() {
  return client_.head().call(&HeadActor::actors).get();
}

std::vector<HostRow> ClusterTarget::nodes() {
  return client_.head().call(&HeadActor::nodes).get();
}

JobOutput ClusterTarget::news() {
  const auto& head = client_.head();
  JobOutput now;
  now.job = status().job;
  if (now.job.state == "none") return now;
  now = head.call(&HeadActor::look).get();
  if (now.next < next_) next_ = 0;  // another job than the one before
  if (next_ < now.next) now = head.call(&HeadActor::output, next_).get();
  next_ = now.next;
  return now;
}

std::vector<StepRow> ClusterTarget::history(std::int64_t after) {
  std::vector<StepRow> all;
  for (;;) {
    auto part = client_.head().call(&HeadActor::history, after).get();
    const bool more = part.size() == JobControl::kHistoryPart;
    if (!part.empty()) after = part.back().step;
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    if (!more) return all;
  }
}

bool ClusterTarget::stop() {
  client_.head().call(&HeadActor::stop_job).get();
  return true;
}

std::string ClusterTarget::call(const std::string& actor, const std::string& method, const std::string& arguments) {
  return Cluster(client_.runtime()).call(actor, method, arguments);
}

JobAnswer ClusterTarget::ask(const JobRequest& request) {
  return client_.head().call(&HeadActor::ask, request).get();
}

}  // namespace nestor::launch

namespace nestor {

std::unique_ptr<launch::DriverTarget> attach(const std::string& cluster) {
  return std::make_unique<launch::ClusterTarget>(cluster);
}

std::unique_ptr<launch::DriverTarget> start_attached(const std::string& cluster, const std::string& config_file,
                                                     const std::vector<std::string>& overrides) {
  auto config = launch::read_config(launch::read_text(config_file, std::size_t{16} << 20), config_file, overrides);
  launch::resolve_paths(config, config_file);
  auto target = std::make_unique<launch::ClusterTarget>(cluster);
  target->start(std::move(config), config_file, launch::RunFolder::Open::fresh, {});
  return target;
}

}  // namespace nestor
