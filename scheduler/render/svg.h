#pragma once

#include <cstdint>
#include <string>

#include <nestor/scheduler/timeline.h>

namespace nestor::scheduler {

struct SvgOptions {
  std::int32_t width = 1200;  ///< pixels, at least; long timelines are drawn wider so that operators stay legible
  std::int64_t span_ns = 0;   ///< time that the width stands for, so that two timelines share a scale; 0: its own
  bool transfers = true;      ///< lines from senders to readers
  bool in_flight = true;      ///< activations in flight over time, a strip per lane below the lanes
  bool standalone = true;     ///< brings its own style and legend: a file. false: the page has `svg_style` once
};

/// A timeline as one SVG element: lanes as rows, operators in their module's colour (light forward, dark backward),
/// microbatch numbers where they fit, what it is under the pointer. Operators narrower than half a pixel are drawn
/// together, so that the size stays bounded by the width. Light and dark by the viewer's preference; no script.
std::string render_svg(const Timeline& timeline, const SvgOptions& options = {});

/// The width it takes, for drawings that are to share a scale: give the largest to all as `width`.
std::int32_t svg_width(const Timeline& timeline, const SvgOptions& options);

/// The style sheet of those elements (without the <style> tag).
std::string svg_style();

/// Colour classes of a module: "nt-m0", the last palette entry repeats.
std::string svg_class(std::int32_t module);

/// `text` with the characters that mean something to XML replaced.
std::string xml_text(std::string_view text);

/// "38.5 s", "12.3 ms": a length of time for people.
std::string time_text(std::int64_t ns);

}  // namespace nestor::scheduler
