#include <csignal>
#include <tuple>
#include <utility>

#include <unistd.h>

#include <nestor/actors/remote/version.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/cluster/controlled_host.h>
#include <nestor/launch/driver/embedded_target.h>
#include <nestor/launch/driver/waiting.h>
#include <nestor/launch/error.h>
#include <nestor/launch/exit.h>
#include <nestor/launch/files.h>
#include <nestor/launch/training.h>

namespace nestor::launch {

class EmbeddedTarget::Host final : public ControlledHost {
 public:
  Host(JobControl& control, std::string dir) : ControlledHost(control, std::move(dir)) {}
  std::unique_ptr<actors::Job> make_job(const actors::JobSpec& spec) override {
    return actors::make_job(runtime_, spec);
  }
  std::vector<actors::ActorInfo> list() const { return runtime_.list(); }

 private:
  actors::Runtime runtime_;
};

EmbeddedTarget::EmbeddedTarget(TrainConfig config, ModelBuilder build, RunFolder::Open how)
    : control_(std::make_shared<JobControl>(JobControl::Start::paused)),
      host_(std::make_unique<Host>(*control_, config.run.dir.string())) {
  thread_ = std::thread([this, config = std::move(config), build = std::move(build), how] {
    int code = failed;
    std::string error;
    try {
      code = train(config, build, how, *host_);
    } catch (...) {
      std::tie(code, error) = exit_of(std::current_exception());
    }
    control_->end(code, error);
  });
  try {
    wait(control_->pause(), {});
  } catch (...) {
    thread_.join();
    throw;
  }
}

EmbeddedTarget::~EmbeddedTarget() {
  finish();
}

std::string EmbeddedTarget::finish() {
  if (thread_.joinable()) {
    control_->stop(SIGTERM);
    thread_.join();
  }
  return control_->look().error;
}

JobRow EmbeddedTarget::wait(actors::Future<JobRow> done, const Listener& listener) {
  const JobWaits job{[this] { return control_->look(); }, [this](std::uint64_t next) { return control_->output(next); },
                     [this] { return control_->pause(); }};
  return wait_for(std::move(done), job, next_, listener);
}

void EmbeddedTarget::must_live() const {
  const JobOutput now = control_->look();
  if (now.ended) throw WorkError("job", "has ended" + (now.error.empty() ? "" : ": " + now.error));
}

JobRow EmbeddedTarget::step(std::int64_t steps, const Listener& listener) {
  must_live();
  return wait(control_->grant(steps), listener);
}

JobRow EmbeddedTarget::run(const Listener& listener) {
  must_live();
  const JobRow row = control_->row();
  return wait(control_->grant(row.steps - row.step), listener);
}

JobRow EmbeddedTarget::pause(const Listener& listener) {
  must_live();
  return wait(control_->pause(), listener);
}

ClusterRow EmbeddedTarget::status() {
  ClusterRow row;
  row.version = actors::remote::version();
  row.pid = ::getpid();
  row.job = control_->row();
  return row;
}

std::vector<ActorRow> EmbeddedTarget::actors() {
  std::vector<ActorRow> rows;
  for (const actors::ActorInfo& info : host_->list()) {
    ActorRow row;
    row.name = info.name;
    row.kind = info.type;
    row.state = info.state;
    row.pid = ::getpid();
    row.death_cause = info.death_cause;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<HostRow> EmbeddedTarget::nodes() {
  return {};
}

JobOutput EmbeddedTarget::news() {
  JobOutput now = control_->look();
  if (next_ < now.next) now = control_->output(next_).get();
  next_ = now.next;
  return now;
}

bool EmbeddedTarget::stop() {
  return false;
}

std::string EmbeddedTarget::call(const std::string& actor, const std::string&, const std::string&) {
  throw InputError("call " + one_line(actor, 60), "there are no actors of users' in one process",
                   "--cluster NAME has them");
}

std::vector<StepRow> EmbeddedTarget::history(std::int64_t after) {
  return control_->history(after);
}

JobAnswer EmbeddedTarget::ask(const JobRequest& request) {
  return control_->ask(request).get();
}

}  // namespace nestor::launch
