#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nestor/scheduler/timeline.h>

namespace nestor::scheduler {

/// One or more timelines one above the other as a fragment of a page, on one time scale where their lengths are of the
/// same order: heading, figures, drawing and one legend. The page needs `html_style` in its head. No script, nothing
/// from outside.
std::string timeline_section(std::span<const Timeline> timelines);

/// The style sheet of a page of the project's own, light and dark (without the <style> tag); holds `svg_style`.
std::string html_style();

/// A whole page of the timelines, self-contained.
std::string render_html(std::string_view title, std::span<const Timeline> timelines);

}  // namespace nestor::scheduler
