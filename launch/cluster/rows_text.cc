#include <algorithm>

#include <fmt/format.h>

#include <nestor/launch/cluster/rows_text.h>
#include <nestor/launch/commands/table.h>

namespace nestor::launch {
namespace {

using Cells = std::vector<std::vector<std::string>>;

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

}  // namespace

std::string lanes_text(const std::vector<std::int32_t>& lanes) {
  return fmt::format("{}", fmt::join(lanes, ", "));
}

std::string job_text(const JobRow& job) {
  std::string text =
      fmt::format("job {}: {}, step {} of {}, policy {}\n", job.dir, job.state, job.step, job.steps, job.policy);
  if (job.step > 0) text += fmt::format("  loss {:.4g}, {:.0f} samples/s\n", job.loss, job.samples_per_second);
  for (const auto& [pool, lanes] : job.pools)
    text += fmt::format("  pool {}: {} on {} {}\n", pool, lanes.size(), lanes.size() == 1 ? "lane" : "lanes",
                        lanes_text(lanes));
  if (!job.cause.empty()) text += "  " + job.cause + "\n";
  return text;
}

std::string faults_text(const std::vector<Fault>& faults, std::size_t most) {
  std::string text = fmt::format("{} {} so far\n", faults.size(), faults.size() == 1 ? "fault" : "faults");
  const std::size_t shown = std::min(faults.size(), most);
  if (shown < faults.size()) text += fmt::format("  ... {} earlier; --format json has all\n", faults.size() - shown);
  for (auto fault = faults.end() - static_cast<std::ptrdiff_t>(shown); fault != faults.end(); ++fault)
    text += fmt::format("  after step {}: {} on {} (pid {}): {}\n", fault->step, fault->actor, fault->host, fault->pid,
                        fault->cause);
  return text;
}

std::string status_text(const ClusterRow& row) {
  std::string text = fmt::format("{}: {} of {} lanes alive, head {} (pid {}), nestor {}\n", row.name, row.alive,
                                 row.lanes, row.endpoint, row.pid, row.version);
  text += row.job.state == "none" ? "no job yet: nestor train CONFIG --cluster " + row.name + "\n" : job_text(row.job);
  return text + faults_text(row.faults, 5);
}

std::string actors_text(const std::vector<ActorRow>& rows) {
  Cells table{{"actor", "kind", "state", "host", "pid", "lane", "generation", "restarts", "death cause"}};
  for (const ActorRow& row : rows)
    table.push_back({row.name, row.kind, row.state, or_dash(row.host), std::to_string(row.pid),
                     row.lane < 0 ? "-" : std::to_string(row.lane), std::to_string(row.generation),
                     std::to_string(row.restarts), or_dash(row.death_cause)});
  return aligned(table);
}

std::string nodes_text(const std::vector<HostRow>& rows) {
  Cells table{{"node", "host", "state", "pid", "lanes"}};
  for (const HostRow& row : rows)
    table.push_back({row.name, row.host, row.state, std::to_string(row.pid), lanes_text(row.lanes)});
  return aligned(table);
}

std::string pools_text(const std::vector<PoolRow>& rows) {
  Cells table{{"pool", "state", "size", "on lanes"}};
  for (const PoolRow& row : rows)
    table.push_back({row.name, row.state, std::to_string(row.lanes.size()), lanes_text(row.lanes)});
  return aligned(table);
}

}  // namespace nestor::launch
