#include <limits>

#include <nestor/actors/executor.h>

namespace nestor::actors {

Executor::Executor(std::int32_t lane, std::shared_ptr<const JobSpec> spec, std::shared_ptr<comm::Channel> channel)
    : number_(lane), channels_{channel}, lane_(lane, std::move(spec), *channel) {}

Executor::~Executor() = default;

void Executor::describe(MethodTable<Executor>& table) {
  table.type("executor")
      .method("stage", &Executor::stage)
      .method("settle", &Executor::settle)
      .method("install", &Executor::install)
      .method("run", &Executor::run)
      .method("resolve", &Executor::resolve)
      .method("abort", &Executor::abort)
      .method("status", &Executor::status)
      .method("save", &Executor::save)
      .method("read", &Executor::read)
      .method("adopt", &Executor::adopt)
      .method("parameters", &Executor::parameters)
      .method("gradients", &Executor::gradients);
}

void Executor::on_stop() {
  lane_.abort(std::numeric_limits<std::uint64_t>::max(), "the executor was stopped");
}

Future<void> Executor::stage(Placement placement) {
  return thread_.submit([this, placement = std::move(placement)] { lane_.stage(placement); });
}

Future<void> Executor::settle(bool commit) {
  return thread_.submit([this, commit] { lane_.settle(commit); });
}

void Executor::install(LanePlan plan) {
  thread_.post([this, plan = std::move(plan)]() mutable { lane_.install(std::move(plan)); });
}

Future<LaneReport> Executor::run(RunStep message) {
  return thread_.submit([this, message] { return lane_.run(message); });
}

Future<void> Executor::resolve(Resolve message) {
  return thread_.submit([this, message] { lane_.resolve(message); });
}

void Executor::abort(std::uint64_t generation, std::string cause) {
  lane_.abort(generation, cause);
}

Executor::Status Executor::status() const {
  return {number_, lane_.version(), lane_.doing()};
}

Future<void> Executor::connect(std::shared_ptr<comm::Channel> channel) {
  channels_.push_back(channel);
  if (channels_.size() > 2) channels_.erase(channels_.begin());
  return thread_.submit([this, channel] { lane_.connect(*channel); });
}

Future<modules::CheckpointFile> Executor::save(std::filesystem::path folder) {
  return thread_.submit([this, folder] { return lane_.save(modules::CheckpointWriter::join(folder)); });
}

Future<void> Executor::read(std::filesystem::path folder) {
  return thread_.submit([this, folder = std::move(folder)] { lane_.read(folder); });
}

Future<void> Executor::adopt(std::int64_t version) {
  return thread_.submit([this, version] { lane_.adopt(version); });
}

Future<modules::NamedTensors> Executor::parameters() {
  return thread_.submit([this] { return lane_.parameters(); });
}

Future<modules::NamedTensors> Executor::gradients() {
  return thread_.submit([this] { return lane_.gradients(); });
}

}  // namespace nestor::actors
