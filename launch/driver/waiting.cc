#include <chrono>
#include <utility>

#include <nestor/launch/driver/waiting.h>
#include <nestor/launch/exit.h>

namespace nestor::launch {
namespace {

using namespace std::chrono_literals;

constexpr auto kGlance = 100ms;  ///< how soon Ctrl-C is noticed

}  // namespace

JobRow wait_for(actors::Future<JobRow> done, const JobWaits& job, std::uint64_t& next, const Listener& listener) {
  actors::Future<JobOutput> output;
  bool pausing = false;
  const auto tell = [&](const JobOutput& said) {
    next = said.next;
    return listener ? listener(said) : Wait::on;
  };
  while (!done.ready()) {
    if (!output.valid()) output = job.output(next);
    Wait wish = Wait::on;
    if (output.wait_for(kGlance)) {
      const JobOutput said = output.get();
      wish = tell(said);
      if (said.ended && !done.wait_for(kGlance)) continue;
    } else {
      JobOutput glance = job.look();  // without the lines
      glance.next = next;
      wish = tell(glance);
    }
    if (wish == Wait::leave) return job.look().job;
    if (wish == Wait::pause && !std::exchange(pausing, true)) done = job.pause();
  }
  JobRow row = done.get();
  // What it said up to here, without waiting for more: the lines came before the row.
  for (;;) {
    const JobOutput now = job.look();
    if (next >= now.next) {
      tell(now);
      break;
    }
    tell(job.output(next).get());
  }
  if (const JobOutput end = job.look(); end.ended && !end.error.empty())
    static_cast<void>(JobAnswer{"", end.exit_code == 0 ? failed : end.exit_code, end.error}.value());
  return row;
}

}  // namespace nestor::launch
