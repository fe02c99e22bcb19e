#include <optional>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/launch/cluster/client.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/progress.h>

namespace nestor::launch {
namespace {

using namespace std::chrono_literals;

std::string detail_of(const JobRow& job) {
  if (job.samples_per_second == 0) return job.state == "recovering" ? "recovering" : "";  // before its first step
  std::string text = fmt::format("loss {:.4g}", job.loss);
  if (job.losses.size() > 1)
    for (const auto& [name, loss] : job.losses) text += fmt::format("  {} {:.3g}", name, loss);
  if (job.samples_per_second > 0) text += fmt::format("  {:.0f} samples/s", job.samples_per_second);
  if (job.state == "recovering") text += "  recovering";
  return text;
}

}  // namespace

int follow_job(ClusterClient& cluster) {
  Interrupts interrupts;
  const auto head = cluster.head();
  const auto stop = [head] { head.call(&HeadActor::stop_job); };
  interrupts.on_first(stop);
  interrupts.on_second(stop);
  std::optional<Progress> progress;
  std::uint64_t next = 0;
  std::int64_t last_step = -1;
  for (;;) {
    auto asked = head.call(&HeadActor::output, next);
    while (!asked.wait_for(200ms)) {
      if (interrupts.count() < 3) continue;
      fmt::print(stderr, "\nleft; the job goes on (nestor status, nestor down)\n");
      return 128 + interrupts.requested();
    }
    const JobOutput output = asked.get();
    next = output.next;
    for (const std::string& line : output.lines) {
      if (progress) {
        progress->note(line);
      } else {
        fmt::print(stderr, "{}\n", line);
      }
    }
    if (output.job.steps > 0 && output.job.step != last_step) {
      if (!progress || output.job.step < last_step) progress.emplace("step", output.job.steps, output.job.step);
      last_step = output.job.step;
      progress->update(output.job.step, detail_of(output.job));
    }
    if (!output.ended) continue;
    if (progress) progress->finish();
    if (!output.error.empty()) fmt::print(stderr, "nestor: {}\n", one_line(output.error, 1000));
    return output.exit_code;
  }
}

}  // namespace nestor::launch
