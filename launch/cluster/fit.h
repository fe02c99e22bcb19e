#pragma once

#include <cstdint>

#include <nestor/actors/job.h>

namespace nestor::launch {

/// Lanes that a schedule asks for: its stages', and those that its pools name.
std::int32_t lanes_of(const actors::ScheduleOptions& schedule);

/// The schedule on the first `lanes` lanes, at least as many as it has stages: pools lose the members that lived on
/// others, and one that lost all lives on the last lane there is.
actors::ScheduleOptions fit(actors::ScheduleOptions schedule, std::int32_t lanes);

}  // namespace nestor::launch
