#pragma once

#include <functional>

#include <nestor/actors/future.h>
#include <nestor/launch/driver/target.h>

namespace nestor::launch {

/// How both kinds of target wait for their job.
struct JobWaits {
  std::function<JobOutput()> look;
  std::function<actors::Future<JobOutput>(std::uint64_t next)> output;
  std::function<actors::Future<JobRow>()> pause;
};

/// Waits for `done`, and tells `listener` what the job says from line `next` on; `next` then is the first one not told.
/// Returns early where the listener leaves. Throws WorkError where the job has failed meanwhile.
JobRow wait_for(actors::Future<JobRow> done, const JobWaits& job, std::uint64_t& next, const Listener& listener);

}  // namespace nestor::launch
