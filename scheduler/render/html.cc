#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>

#include <nestor/scheduler/render/html.h>
#include <nestor/scheduler/render/svg.h>

namespace nestor::scheduler {
namespace {

struct Figures {
  std::int64_t start = 0, end = 0, busy = 0;
  std::set<std::int32_t> lanes, microbatches;
  std::set<std::int32_t> modules;
  std::set<OpKind> kinds;

  explicit Figures(const Timeline& timeline) {
    bool first = true;
    for (const TimelineRow& row : timeline.rows) {
      if (!row.op.is_compute()) continue;
      start = first ? row.start_ns : std::min(start, row.start_ns);
      end = first ? row.end_ns : std::max(end, row.end_ns);
      first = false;
      busy += row.end_ns - row.start_ns - std::min(row.wait_ns, row.end_ns - row.start_ns);
      lanes.insert(row.lane);
      microbatches.insert(row.op.microbatch);
      modules.insert(row.op.module);
      kinds.insert(row.op.kind);
    }
  }
  std::int64_t span() const { return end - start; }
  double utilisation() const {
    const double room = static_cast<double>(span()) * static_cast<double>(lanes.size());
    return room > 0 ? static_cast<double>(busy) / room : 0;
  }
};

std::string figure(std::string_view name, const std::string& value) {
  return fmt::format("<div class=\"figure\"><b>{}</b><span>{}</span></div>", xml_text(value), name);
}

std::string legend(const Timeline& timeline, const Figures& figures) {
  std::string out = "<div class=\"legend\">";
  for (std::int32_t module : figures.modules) {
    const auto m = static_cast<std::size_t>(module);
    const std::string name =
        m < timeline.module_names.size() ? timeline.module_names[m] : fmt::format("module {}", module);
    out += fmt::format(
        "<span><svg class=\"nt key\" width=\"30\" height=\"13\"><rect class=\"{0} f\" width=\"14\" height=\"13\" "
        "rx=\"2\"/>"
        "<rect class=\"{0} b\" x=\"16\" width=\"14\" height=\"13\" rx=\"2\"/></svg>{1} forward, backward</span>",
        svg_class(module), xml_text(name));
  }
  if (figures.kinds.contains(OpKind::backward_weight))
    out += "<span class=\"soft\">paler: weight half of a backward</span>";
  if (figures.kinds.contains(OpKind::recompute)) out += "<span class=\"soft\">dashed: recomputation</span>";
  return out + "<span class=\"soft\">number: microbatch &middot; point at a bar for more</span></div>\n";
}

std::string heading(const Timeline& timeline) {
  std::string name = timeline.source.empty() ? "timeline" : timeline.source;
  if (static_cast<unsigned char>(name[0]) < 0x80) name[0] = static_cast<char>(std::toupper(name[0]));
  if (timeline.step > 0) name += fmt::format(", step {}", timeline.step);
  return xml_text(name);
}

}  // namespace

std::string timeline_section(std::span<const Timeline> timelines) {
  std::vector<Figures> figures;
  std::int64_t longest = 0, shortest = 0;
  for (const Timeline& timeline : timelines) {
    figures.emplace_back(timeline);
    const std::int64_t span = figures.back().span();
    longest = std::max(longest, span);
    shortest = figures.size() == 1 ? span : std::min(shortest, span);
  }
  const bool one_scale = shortest > 0 && longest / 4 <= shortest;
  SvgOptions options;
  options.standalone = false;
  options.width = 1272;  // of the page
  if (one_scale) {
    options.span_ns = longest;
    for (const Timeline& timeline : timelines) options.width = std::max(options.width, svg_width(timeline, options));
  }
  std::string out = "<section class=\"timelines\">\n";
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    out += fmt::format("<h2>{}</h2>\n<div class=\"figures\">{}{}{}{}</div>\n", heading(timelines[i]),
                       figure("makespan", time_text(figures[i].span())),
                       figure("lanes busy", fmt::format("{:.1f}%", 100 * figures[i].utilisation())),
                       figure("lanes", std::to_string(figures[i].lanes.size())),
                       figure("microbatches", std::to_string(figures[i].microbatches.size())));
    if (i == 0) {
      out += legend(timelines[i], figures[i]);
      out += "<label class=\"soft\"><input type=\"checkbox\" class=\"show-arrows\"> transfers</label>\n";
    }
    out += fmt::format("<div class=\"scroll\">{}</div>\n", render_svg(timelines[i], options));
  }
  return out + "</section>\n";
}

std::string html_style() {
  return svg_style() +
         "body{margin:0;background:var(--nt-page);color:var(--nt-ink);font:15px/1.5 system-ui,-apple-system,'Segoe "
         "UI',sans-serif}main{max-width:1320px;margin:0 auto;padding:28px 24px 60px}h1{font-size:22px;font-weight:650;"
         "margin:0 0 4px}h2{font-size:16px;font-weight:600;margin:30px 0 6px}.soft{color:var(--nt-soft);font-size:13px}"
         ".figures{display:flex;flex-wrap:wrap;gap:28px;margin:4px 0 12px}.figure b{display:block;font-size:19px;"
         "font-weight:600;font-variant-numeric:tabular-nums;line-height:1.25}.figure span{color:var(--nt-soft);"
         "font-size:12.5px}.legend{display:flex;flex-wrap:wrap;gap:6px 22px;align-items:center;margin:6px 0 4px;"
         "font-size:13.5px}.legend>span{display:inline-flex;align-items:center;gap:7px}.legend "
         "svg{display:inline-block}"
         ".scroll{overflow-x:auto;padding:6px 0 10px;border-top:1px solid var(--nt-line)}.nt-arrows{display:none}"
         ".timelines:has(.show-arrows:checked) .nt-arrows{display:inline}";
}

std::string render_html(std::string_view title, std::span<const Timeline> timelines) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{0}"
      "</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n{2}</main>\n</body>\n</html>\n",
      xml_text(title), html_style(), timeline_section(timelines));
}

}  // namespace nestor::scheduler
