#pragma once

#include <cstdint>
#include <string>

#include <nestor/scheduler/timeline.h>

namespace nestor::scheduler {

/// A timeline as a grid of characters: a line per lane, time from left to right, with a ruler above and a legend and
/// each lane's share of busy time below. `width` is the terminal's, in characters; at least 40 are used.
///
/// A cell begins with its operator's letter and microbatch where they fit and is drawn out with '-' (forward),
/// '=' (backward), '~' (its weight half) or ':' (recomputation); '.' is idle. Where a unit of time has a whole number
/// of columns the grid is exact, else columns are rounded and too narrow cells show what fills most of them.
std::string render_text(const Timeline& timeline, std::int32_t width = 120);

}  // namespace nestor::scheduler
