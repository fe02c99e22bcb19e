#include <algorithm>
#include <exception>
#include <map>
#include <random>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/actors/get_all.h>
#include <nestor/launch/cluster/cluster_lanes.h>
#include <nestor/launch/cluster/head.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/run_folder.h>
#include <nestor/modules/train/file_io.h>

namespace nestor::launch {
namespace fs = std::filesystem;
using actors::Error;
using actors::Future;
using actors::Handle;

namespace {

constexpr const char* kIndex = "checkpoint.json";

/// The nearest folder above `run`, which is made only once all else is well.
fs::path existing_above(const fs::path& run) {
  fs::path folder = run.parent_path();
  while (!fs::exists(folder) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

void send_file(const Handle<HostFiles>& to, const fs::path& file) {
  const modules::InputFile in(file);
  std::uint64_t offset = 0;
  do {  // once for an empty one too
    std::string part(std::min(HostFiles::kPart, in.size() - offset), '\0');
    in.read(offset, part.data(), part.size());
    to.call(&HostFiles::write, file, offset, part).get();
    offset += part.size();
  } while (offset < in.size());
  if (!to.call(&HostFiles::whole, file, static_cast<std::int64_t>(in.size()), in.crc32()).get())
    throw Error(file.string(), "did not arrive whole");
}

void fetch_file(const Handle<HostFiles>& from, const fs::path& file, const modules::CheckpointFile& what) {
  modules::AsideFile out(file);
  for (std::uint64_t offset = 0; offset < static_cast<std::uint64_t>(what.bytes);) {
    const auto size = std::min(HostFiles::kPart, static_cast<std::uint64_t>(what.bytes) - offset);
    const std::string part = from.call(&HostFiles::read, file, offset, size).get();
    out.write(part.data(), part.size());
    offset += size;
  }
  if (out.commit().crc32 != what.crc32) throw Error(file.string(), "did not arrive whole");
}

}  // namespace

ClusterLanes::ClusterLanes(actors::remote::Node& node, Opening opening, fs::path run)
    : incarnation_(opening.incarnation), run_(std::move(run)) {
  std::vector<Handle<Worker>> workers;
  for (const std::int32_t worker : opening.workers) {
    const std::string name = HeadActor::lane_node(worker);
    workers.push_back(node.attach<Worker>(name, "worker"));
    hosts_.push_back({worker, node.attach<HostFiles>(name, "files"), false});
  }
  prove_disks();
  if (!opening.vocabulary.empty())
    for (const LaneHost& host : hosts_)
      if (host.apart) send_file(host.files, opening.vocabulary);

  std::vector<Future<std::string>> opened;
  for (const Handle<Worker>& worker : workers) opened.push_back(worker.call(&Worker::open, opening));
  std::map<std::int32_t, std::string> addresses;
  for (std::string& address : actors::get_all(std::move(opened)))
    addresses.emplace(static_cast<std::int32_t>(addresses.size()), std::move(address));
  std::vector<Future<void>> connected;
  for (const Handle<Worker>& worker : workers) connected.push_back(worker.call(&Worker::connect, addresses));
  actors::get_all(std::move(connected));
  for (const LaneHost& host : hosts_)
    executors_.push_back(node.find<actors::Executor>(HeadActor::lane_node(host.worker),
                                                     Worker::executor_name(host.worker, opening.incarnation)));
  transports_ = workers.front().call(&Worker::transports).get();
}

void ClusterLanes::prove_disks() {
  std::random_device random;
  const std::string text = fmt::format("{:08x}{:08x}", random(), random());
  const fs::path probe = existing_above(run_) / (".nestor-probe-" + text);
  write_aside(probe, text);
  std::exception_ptr failure;
  try {
    std::vector<Future<bool>> seen;
    for (std::size_t lane = 0; lane < hosts_.size(); ++lane)
      seen.push_back(hosts_[lane].files.call(&HostFiles::serve, run_, probe, text, static_cast<std::int32_t>(lane)));
    const auto shared = actors::get_all(std::move(seen));
    for (std::size_t lane = 0; lane < hosts_.size(); ++lane) {
      const fs::path answer = HostFiles::answer_file(probe, static_cast<std::int32_t>(lane));
      hosts_[lane].apart = !shared[lane];
      if (shared[lane] && (!fs::exists(answer) || read_text(answer, 1 << 10) != text))
        throw Error(HeadActor::lane_node(hosts_[lane].worker),
                    "reads the head's files at " + run_.string() + " and writes its own elsewhere",
                    "run.dir must be on one disk, or on disks of the hosts' own");
    }
  } catch (...) {
    failure = std::current_exception();
  }
  std::error_code error;
  fs::remove(probe, error);
  for (std::size_t lane = 0; lane < hosts_.size(); ++lane)
    fs::remove(HostFiles::answer_file(probe, static_cast<std::int32_t>(lane)), error);
  if (failure) std::rethrow_exception(failure);
}

std::vector<Handle<actors::Executor>> ClusterLanes::lanes(std::int32_t count) {
  if (count > static_cast<std::int32_t>(executors_.size()))
    throw Error("job", fmt::format("asks for {} lanes, the cluster has {}", count, executors_.size()),
                "fewer stages or other lanes for its pools");
  return {executors_.begin(), executors_.begin() + count};
}

std::vector<std::int32_t> ClusterLanes::apart() const {
  std::vector<std::int32_t> workers;
  for (const LaneHost& host : hosts_)
    if (host.apart) workers.push_back(host.worker);
  return workers;
}

void ClusterLanes::collect(std::int32_t lane, const fs::path& folder, const modules::CheckpointFile& file) {
  const LaneHost& host = hosts_.at(static_cast<std::size_t>(lane));
  if (host.apart) fetch_file(host.files, fs::path(folder.string() + ".partial") / file.name, file);
}

void ClusterLanes::give(const LaneHost& host, const fs::path& folder) const {
  const auto files = modules::read_checkpoint_info(folder).files;
  for (const std::string& name : host.files.call(&HostFiles::missing, folder, files).get())
    send_file(host.files, folder / name);
  send_file(host.files, folder / kIndex);
}

void ClusterLanes::mirror(const fs::path& folder) {
  std::vector<std::string> kept;
  for (const auto& [step, path] : list_checkpoints(run_)) kept.push_back(path.filename().string());
  bool mirrored = false;
  for (const LaneHost& host : hosts_) {
    if (!host.apart) continue;
    host.files.call(&HostFiles::keep, folder, kept).get();
    if (!std::exchange(mirrored, true)) give(host, folder);
  }
}

void ClusterLanes::provide(const fs::path& folder) {
  for (const LaneHost& host : hosts_)
    if (host.apart) give(host, folder);
}

}  // namespace nestor::launch
