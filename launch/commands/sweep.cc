#include <algorithm>
#include <iterator>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/commands/plan_output.h>
#include <nestor/launch/commands/table.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/progress.h>
#include <nestor/scheduler/model_costs.h>
#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/sweep.h>

namespace nestor::launch {
namespace {

struct SweepOptions {
  std::string workload, format = "text";
  std::vector<std::int32_t> stages, chunks, microbatches;
  std::vector<std::string> policies, pools, placements, recompute;
  std::optional<std::uint64_t> memory;
  std::int32_t threads = 0;
};

/// What is swept: a workload in other shapes, or a model.
struct Subject {
  scheduler::WorkloadOf workload_of;
  std::vector<std::string> pools;
  std::vector<std::int32_t> stages, chunks, microbatches;  ///< where the flags say nothing
  std::int64_t samples = 0;                                ///< of a microbatch; 0: not known
};

Subject read_subject(const std::string& path) {
  auto text = read_text(path);
  Subject subject;
  if (scheduler::is_model(text, path)) {
    auto model = scheduler::read_model(text, path);
    for (const auto& pool : model.pools) subject.pools.push_back(pool.name);
    subject.samples = model.samples;
    subject.chunks = {1};
    subject.workload_of = [model](const scheduler::Shape& shape) { return scheduler::model_workload(model, shape); };
    return subject;
  }
  auto workload = scheduler::read_workload(text, path);
  for (const auto& pool : workload.pools) subject.pools.push_back(pool.name);
  subject.stages = {workload.stages};
  subject.chunks = {workload.chunks};
  subject.microbatches = {workload.microbatches};
  subject.workload_of = [workload](const scheduler::Shape& shape) { return scheduler::reshape(workload, shape); };
  return subject;
}

std::vector<std::int32_t> chosen(const std::vector<std::int32_t>& given, const std::vector<std::int32_t>& otherwise,
                                 const char* flag) {
  const auto& values = given.empty() ? otherwise : given;
  if (values.empty()) throw InputError(flag, "is needed for a model description", fmt::format("e.g. {} 4,8", flag));
  for (auto value : values)
    if (value < 1) throw InputError(flag, fmt::format("{} is less than 1", value));
  return values;
}

/// "vision=1,2,4"
void read_pool(const std::string& text, const Subject& subject, scheduler::SweepAxes& axes) {
  auto equal = text.find('=');
  auto name = text.substr(0, equal);
  auto found = std::find(subject.pools.begin(), subject.pools.end(), name);
  if (equal == std::string::npos || found == subject.pools.end())
    throw InputError("--pool", fmt::format("\"{}\" is not NAME=SIZE,... of a pool", one_line(text, 40)),
                     subject.pools.empty() ? "there is none" : fmt::format("e.g. {}=1,2", subject.pools.front()));
  std::vector<std::int32_t> sizes;
  for (std::size_t at = equal + 1; at <= text.size();) {
    auto end = std::min(text.find(',', at), text.size());
    std::int32_t size = 0;
    if (!CLI::detail::lexical_cast(text.substr(at, end - at), size) || size < 1 || size > 65536)
      throw InputError("--pool", fmt::format("\"{}\" is no size", one_line(text.substr(at, end - at), 20)),
                       "1 to 65536");
    sizes.push_back(size);
    at = end + 1;
  }
  axes.pools.resize(subject.pools.size());
  axes.pools[static_cast<std::size_t>(found - subject.pools.begin())] = sizes;
}

scheduler::SweepAxes read_axes(const SweepOptions& options, const Subject& subject) {
  scheduler::SweepAxes axes;
  axes.stages = chosen(options.stages, subject.stages, "--stages");
  axes.chunks = chosen(options.chunks, subject.chunks, "--chunks");
  axes.microbatches = chosen(options.microbatches, subject.microbatches, "--microbatches");
  auto known = scheduler::policy_names();
  axes.policies = options.policies;
  if (axes.policies.empty()) axes.policies.assign(known.begin(), known.end());
  for (const auto& policy : axes.policies)
    if (std::find(known.begin(), known.end(), policy) == known.end())
      throw InputError("--policy", fmt::format("\"{}\" is unknown", one_line(policy, 40)),
                       fmt::format("there are {}", fmt::join(known, ", ")));
  for (const auto& pool : options.pools) read_pool(pool, subject, axes);
  if (!options.placements.empty()) axes.own_devices.clear();
  for (const auto& placement : options.placements) axes.own_devices.emplace_back(placement == "own");
  if (!options.recompute.empty()) axes.recompute.clear();
  for (const auto& value : options.recompute) axes.recompute.push_back(value == "on");
  if (options.memory)
    axes.memory_bytes = static_cast<std::int64_t>(std::min<std::uint64_t>(*options.memory, 1ull << 53));
  return axes;
}

std::string pools_text(const scheduler::Shape& shape) {
  std::string text = !shape.own_devices ? "" : *shape.own_devices ? "own" : "colocated";
  for (auto size : shape.pool_sizes)
    if (size > 0) text += fmt::format("{}{}", text.empty() ? "" : " ", size);
  return text.empty() ? "-" : text;
}

std::string table(const std::vector<scheduler::SweepRow>& rows, const Subject& subject) {
  std::vector<std::vector<std::string>> fits{
      {"policy", "P", "V", "M", "pools", "recompute", "per microbatch", "makespan", "bubble", "peak GB", "D", "llm"}};
  if (subject.samples > 0) fits[0].insert(fits[0].begin() + 7, "samples/s");
  for (const auto& pool : subject.pools) fits[0].push_back(pool);
  std::string out;
  std::vector<std::vector<std::string>> others{{"policy", "P", "V", "M", "pools", "recompute"}};
  std::vector<std::string> reasons;
  for (const auto& row : rows) {
    const auto& shape = row.configuration.shape;
    std::vector<std::string> cells{row.configuration.policy,
                                   std::to_string(shape.stages),
                                   std::to_string(shape.chunks),
                                   std::to_string(shape.microbatches),
                                   pools_text(shape),
                                   shape.recompute ? "on" : "off"};
    if (row.verdict != scheduler::SweepVerdict::fits) {
      others.push_back(std::move(cells));
      reasons.push_back(row.why);
      continue;
    }
    cells.push_back(seconds_text(row.per_microbatch));
    if (subject.samples > 0)
      cells.push_back(fmt::format("{:.4g}", static_cast<double>(subject.samples) / row.per_microbatch));
    cells.push_back(seconds_text(row.makespan));
    cells.push_back(fmt::format("{:.1f} %", row.bubble * 100));
    cells.push_back(fmt::format("{:.4g}", static_cast<double>(row.peak_bytes) / 1e9));
    cells.push_back(std::to_string(row.extra_warmup));
    for (auto peak : row.in_flight) cells.push_back(fmt::format("{:.4g}", peak));
    fits.push_back(std::move(cells));
  }
  if (fits.size() > 1) out += "best first; llm and pools: microbatches in flight on the fullest lane\n" + aligned(fits);
  if (others.size() == 1) return out;
  out += out.empty() ? "out\n" : "\nout\n";
  auto lines = aligned(others);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    auto end = lines.find('\n', begin);
    out += fmt::format("{}  {}\n", lines.substr(begin, end - begin), i == 0 ? "why" : reasons[i - 1]);
    begin = end + 1;
  }
  return out;
}

std::string json(const std::vector<scheduler::SweepRow>& rows, const SweepOptions& options, const Subject& subject) {
  nlohmann::ordered_json out{
      {"format", "nestor.sweep/1"}, {"workload", options.workload}, {"rows", nlohmann::ordered_json::array()}};
  for (const auto& row : rows) {
    const auto& shape = row.configuration.shape;
    nlohmann::ordered_json entry{{"policy", row.configuration.policy},
                                 {"stages", shape.stages},
                                 {"chunks", shape.chunks},
                                 {"microbatches", shape.microbatches}};
    if (shape.own_devices) entry["placement"] = *shape.own_devices ? "own" : "colocated";
    for (std::size_t p = 0; p < shape.pool_sizes.size(); ++p)
      if (shape.pool_sizes[p] > 0) entry["pools"][subject.pools[p]] = shape.pool_sizes[p];
    entry["recompute"] = shape.recompute;
    entry["fits"] = row.verdict == scheduler::SweepVerdict::fits;
    if (row.verdict != scheduler::SweepVerdict::fits) {
      entry["verdict"] = scheduler::to_string(row.verdict);
      entry["why"] = row.why;
      if (row.verdict == scheduler::SweepVerdict::memory) entry["over_bytes"] = row.over_bytes;
    } else {
      entry["makespan"] = row.makespan;
      entry["seconds_per_microbatch"] = row.per_microbatch;
      if (subject.samples > 0) entry["samples_per_second"] = static_cast<double>(subject.samples) / row.per_microbatch;
      entry["bubble"] = row.bubble;
      entry["extra_warmup"] = row.extra_warmup;
      entry["peak_bytes"] = row.peak_bytes;
      entry["in_flight"]["llm"] = row.in_flight.front();
      for (std::size_t p = 0; p < subject.pools.size(); ++p)
        entry["in_flight"][subject.pools[p]] = row.in_flight[p + 1];
    }
    out["rows"].push_back(std::move(entry));
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int run(const SweepOptions& options) {
  auto subject = read_subject(options.workload);
  auto axes = read_axes(options, subject);
  auto threads = options.threads > 0 ? options.threads : static_cast<std::int32_t>(std::thread::hardware_concurrency());
  Progress progress("configuration", static_cast<std::int64_t>(scheduler::configurations(axes).size()));
  auto rows = scheduler::sweep(subject.workload_of, axes, std::max(1, threads), [&](std::size_t done, std::size_t) {
    progress.update(static_cast<std::int64_t>(done), "");
  });
  progress.finish();
  write_output("", options.format == "json" ? json(rows, options, subject) : table(rows, subject));
  for (const auto& row : rows)
    if (row.verdict == scheduler::SweepVerdict::unsound)
      throw WorkError(options.workload,
                      fmt::format("the plan of {} is unsound: {}", row.configuration.policy, one_line(row.why)));
  if (rows.front().verdict != scheduler::SweepVerdict::fits)
    throw WorkError(options.workload, "no configuration fits", one_line(rows.front().why));
  return 0;
}

}  // namespace

void add_sweep(CLI::App& program, Session& session) {
  auto options = std::make_shared<SweepOptions>();
  auto command = program.add_subcommand("sweep", "Plan many configurations: the best first, and why others are out");
  command->add_option("workload", options->workload, "nestor.workload/1 or nestor.model/1 file, or -")->required();
  command->add_option("--stages", options->stages, "Pipeline stages, comma-separated")->delimiter(',');
  command->add_option("--chunks", options->chunks, "Chunks a stage")->delimiter(',');
  command->add_option("--microbatches", options->microbatches, "Microbatches of a step")->delimiter(',');
  command->add_option("--policy", options->policies, "Policies; default: all")->delimiter(',');
  command->add_option("--pool", options->pools, "Sizes of a pool, e.g. vision=1,2,4; once for each pool");
  command->add_option("--placement", options->placements, "colocated, own")
      ->delimiter(',')
      ->check(CLI::IsMember({"colocated", "own"}));
  command->add_option("--recompute", options->recompute, "on, off: every module runs its forward again")
      ->delimiter(',')
      ->check(CLI::IsMember({"on", "off"}));
  command
      ->add_option("--memory", options->memory,
                   "Cap in bytes for each lane (80GB, 64GiB), in place of the file's; 0: none")
      ->transform(CLI::AsSizeValue(true));
  command->add_option("--threads", options->threads, "Default: all cores")->check(CLI::Range(0, 1024));
  command->add_option("--format", options->format, "text or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}));
  command->footer(
      "Example:\n  nestor sweep examples/workloads/understanding_30b_moe.yaml --stages 8,16 --microbatches 32,64\n"
      "  nestor sweep examples/workloads/vision.yaml --stages 2,4 --pool vision=1,2,4 --placement colocated,own");
  command->callback([options, &session] { session.action = [options] { return run(*options); }; });
}

}  // namespace nestor::launch
