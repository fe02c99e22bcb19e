#pragma once

#include <string>

#include <nestor/scheduler/timeline.h>

namespace nestor::launch {

/// The timeline in a file, whichever of the program's three it is: a plan (its own times), a timeline, or a trace in
/// Chrome's format as `train` and `plan --format trace` write it (compute rows only). Throws InputError.
scheduler::Timeline read_any_timeline(const std::string& path);

}  // namespace nestor::launch
