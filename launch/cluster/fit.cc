#include <algorithm>

#include <nestor/launch/cluster/fit.h>

namespace nestor::launch {

std::int32_t lanes_of(const actors::ScheduleOptions& schedule) {
  std::int32_t lanes = schedule.stages;
  for (const auto& [pool, members] : schedule.pools)
    for (const std::int32_t lane : members) lanes = std::max(lanes, lane + 1);
  return lanes;
}

actors::ScheduleOptions fit(actors::ScheduleOptions schedule, std::int32_t lanes) {
  for (auto& [pool, members] : schedule.pools) {
    std::erase_if(members, [lanes](std::int32_t lane) { return lane >= lanes; });
    if (members.empty()) members.push_back(lanes - 1);
  }
  return schedule;
}

}  // namespace nestor::launch
