#include <gtest/gtest.h>

#include <nestor/scheduler/render/html.h>
#include <nestor/scheduler/render/svg.h>

#include "plan_edit.h"

namespace nestor::scheduler::testing {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Every element closed, in order.
bool well_formed(std::string_view xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = xml.find('<', at)) != std::string_view::npos;) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string_view::npos) return false;
    const std::string tag(xml.substr(at + 1, end - at - 1));
    at = end;
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (name != "meta" && name != "input") {
      open.push_back(name);
    }
  }
  return open.empty();
}

TEST(Svg, IsOneWellFormedElement) {
  for (const std::string& name : shapes()) {
    Timeline timeline = planned_timeline(plan_of(shape(name), "nested"));
    timeline.lane_names[0] = "<lane & \"zero\">";
    const std::string svg = render_svg(timeline);
    EXPECT_TRUE(svg.starts_with("<svg ")) << name;
    EXPECT_TRUE(well_formed(svg)) << name;
    EXPECT_TRUE(contains(svg, "forward llm stage 0, microbatch 0"));
    EXPECT_FALSE(contains(svg, "\"nan") || contains(svg, "inf\"")) << name;
  }
  EXPECT_TRUE(well_formed(render_svg(planned_timeline(split_plan("plain", true)))));
  EXPECT_TRUE(well_formed(render_svg(Timeline{})));
}

TEST(Svg, StaysSmallHoweverLongTheStep) {
  const std::string svg = render_svg(planned_timeline(plan_of(make_workload(4, 1, 20000, 1, 2), "nested")));
  EXPECT_LT(svg.size(), 2'000'000u);
}

TEST(Html, NeedsNothingFromOutside) {
  const Plan plan = plan_of(shape("plain"), "nested");
  std::vector<Timeline> timelines{planned_timeline(plan), planned_timeline(plan)};
  timelines[1].source = "measured";
  timelines[1].step = 7;
  const std::string page = render_html("A <plan> & more", timelines);
  EXPECT_TRUE(well_formed(page));
  EXPECT_TRUE(contains(page, "<title>A &lt;plan&gt; &amp; more</title>"));
  EXPECT_TRUE(contains(page, "Measured, step 7"));
  EXPECT_TRUE(contains(page, "prefers-color-scheme:dark"));
  for (const char* outside : {"<script", "<link", "src=", "href=", "url(", "@import"})
    EXPECT_FALSE(contains(page, outside)) << outside;
}

}  // namespace
}  // namespace nestor::scheduler::testing
