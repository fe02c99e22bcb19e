#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <nestor/scheduler/render/letters.h>
#include <nestor/scheduler/render/text.h>
#include <nestor/scheduler/render/ticks.h>

namespace nestor::scheduler {
namespace {

/// Where an instant of the timeline lies on the grid.
struct Scale {
  std::int64_t origin = 0, span = 1;
  std::int64_t columns = 1;
  std::int64_t column(std::int64_t ns) const {
    const __int128 at = static_cast<__int128>(ns - origin) * columns;
    return static_cast<std::int64_t>((at + span / 2) / span);
  }
};

/// As many columns as fit, but a whole number for the largest unit that divides every time, so that equal work has
/// equal width wherever the terminal allows it.
Scale scale_for(const Timeline& timeline, std::int64_t columns) {
  Scale scale{0, 1, columns};
  bool first = true;
  std::int64_t end = 0, unit = 0;
  for (const TimelineRow& row : timeline.rows) {
    if (!row.op.is_compute()) continue;
    scale.origin = first ? row.start_ns : std::min(scale.origin, row.start_ns);
    end = first ? row.end_ns : std::max(end, row.end_ns);
    first = false;
  }
  scale.span = std::max<std::int64_t>(end - scale.origin, 1);
  for (const TimelineRow& row : timeline.rows)
    if (row.op.is_compute()) unit = std::gcd(std::gcd(unit, row.start_ns - scale.origin), row.end_ns - scale.origin);
  if (unit > 0 && scale.span / unit <= columns) scale.columns = columns / (scale.span / unit) * (scale.span / unit);
  return scale;
}

std::string seconds_text(std::int64_t ns) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  if (ns == 0) return "0";
  if (seconds < 1e-3) return fmt::format("{:.4g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.6g} s", seconds);
}

/// Ticks at round times, each with its label to the right where that has room.
std::string ruler(const Scale& scale) {
  std::string line(static_cast<std::size_t>(scale.columns), ' ');
  const std::int64_t step = tick_step_ns(scale.span, std::max<std::int64_t>(scale.columns / 12, 1));
  for (std::int64_t at = 0; at <= scale.span; at += step) {
    const auto column = static_cast<std::size_t>(scale.column(scale.origin + at));
    const std::string text = "|" + seconds_text(at);
    if (column + text.size() <= line.size()) line.replace(column, text.size(), text);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string draw_lane(const Scale& scale, const Letters& letters, std::int32_t lane,
                      const std::vector<const TimelineRow*>& rows) {
  std::string line(static_cast<std::size_t>(scale.columns), '.');
  std::vector<std::int64_t> covered(line.size(), 0);  // of a column shared by narrow rows: the most that one takes
  for (const TimelineRow* row : rows) {
    const auto from = std::min<std::int64_t>(scale.column(row->start_ns), scale.columns - 1);
    const auto to = std::min(scale.column(row->end_ns), scale.columns);
    const char letter = letters.of(row->op, lane);
    if (to <= from) {  // narrower than a column: shown where nothing larger is
      auto& most = covered[static_cast<std::size_t>(from)];
      const std::int64_t takes = row->end_ns - row->start_ns;
      if (takes > most && (line[static_cast<std::size_t>(from)] == '.' || most > 0)) {
        line[static_cast<std::size_t>(from)] = letter;
        most = takes;
      }
      continue;
    }
    const auto room = static_cast<std::size_t>(to - from);
    std::string cell = fmt::format("{}{}", letter, row->op.microbatch);
    if (cell.size() > room) cell = cell.substr(0, 1);
    cell.resize(room, Letters::fill(row->op.kind));
    line.replace(static_cast<std::size_t>(from), room, cell);
    std::fill_n(covered.begin() + from, room, 0);
  }
  return line;
}

}  // namespace

std::string render_text(const Timeline& timeline, std::int32_t width) {
  std::size_t lanes = timeline.lane_names.size(), name_width = 4;
  for (const TimelineRow& row : timeline.rows) lanes = std::max(lanes, static_cast<std::size_t>(row.lane) + 1);
  for (const auto& name : timeline.lane_names) name_width = std::max(name_width, name.size());
  std::vector<std::vector<const TimelineRow*>> by_lane(lanes);
  std::vector<std::int64_t> busy(lanes, 0);
  for (const TimelineRow& row : timeline.rows) {
    if (!row.op.is_compute()) continue;
    by_lane[static_cast<std::size_t>(row.lane)].push_back(&row);
    busy[static_cast<std::size_t>(row.lane)] += row.end_ns - row.start_ns;
  }
  const Letters letters(timeline);
  const auto room = std::max<std::int64_t>(std::max(width, 40) - static_cast<std::int64_t>(name_width) - 7, 20);
  const Scale scale = scale_for(timeline, room);
  std::string out = fmt::format("{:{}} {}\n", "", name_width, ruler(scale));
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const std::string name =
        lane < timeline.lane_names.size() ? timeline.lane_names[lane] : fmt::format("lane{}", lane);
    out += fmt::format("{:{}} {} {:3.0f}%\n", name, name_width,
                       draw_lane(scale, letters, static_cast<std::int32_t>(lane), by_lane[lane]),
                       100.0 * static_cast<double>(busy[lane]) / static_cast<double>(scale.span));
  }
  out += fmt::format("\n{}; number = microbatch; . = idle; {} in all\n", fmt::join(letters.legend(), "; "),
                     seconds_text(scale.span));
  return out;
}

}  // namespace nestor::scheduler
