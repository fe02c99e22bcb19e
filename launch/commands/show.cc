#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/commands/timeline_input.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/render/html.h>
#include <nestor/scheduler/render/svg.h>
#include <nestor/scheduler/render/text.h>

namespace nestor::launch {
namespace {

struct ShowOptions {
  std::vector<std::string> inputs;
  std::string output;
};

std::string svg(const std::vector<scheduler::Timeline>& timelines) {
  scheduler::SvgOptions options;
  std::string drawings;
  // Each is a drawing of its own; placed one above the other by the height that it states.
  double top = 0, width = 0;
  for (const auto& timeline : timelines) {
    auto drawing = scheduler::render_svg(timeline, options);
    if (timelines.size() == 1) return drawing;
    auto number = [&](const char* name) {
      auto at = drawing.find(name);
      return at == drawing.npos ? 0.0 : std::stod(drawing.substr(at + std::string_view(name).size(), 16));
    };
    width = std::max(width, number(" width=\""));
    drawings += drawing.replace(0, 4, fmt::format("<svg y=\"{}\"", top)) + "\n";
    top += number(" height=\"") + 24;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n", width,
             top) +
         drawings + "</svg>\n";
}

std::string json(const std::vector<scheduler::Timeline>& timelines) {
  if (timelines.size() == 1) return scheduler::write_timeline(timelines[0]);
  std::string text = "[";
  for (const auto& timeline : timelines) text += (text.size() > 1 ? "," : "") + scheduler::write_timeline(timeline);
  return text + "]\n";
}

int run(const ShowOptions& options) {
  auto ending = std::filesystem::path(options.output).extension().string();
  if (!options.output.empty() && ending != ".html" && ending != ".svg" && ending != ".json")
    throw InputError("-o " + one_line(options.output, 80), "ends neither in .html, .svg nor .json",
                     "e.g. -o plan.html");
  std::vector<scheduler::Timeline> timelines;
  std::string title;
  for (const auto& input : options.inputs) {
    timelines.push_back(read_any_timeline(input));
    title += (title.empty() ? "" : " and ") + std::filesystem::path(input).filename().string();
  }
  if (options.output.empty()) {
    std::string text;
    for (const auto& timeline : timelines) text += (text.empty() ? "" : "\n") + scheduler::render_text(timeline);
    write_output("", text);
  } else {
    write_output(options.output, ending == ".html"  ? scheduler::render_html(title, timelines)
                                 : ending == ".svg" ? svg(timelines)
                                                    : json(timelines));
  }
  return 0;
}

}  // namespace

void add_show(CLI::App& program, Session& session) {
  auto options = std::make_shared<ShowOptions>();
  auto command = program.add_subcommand("show", "Draw a plan or a measured step, or two one above the other");
  command->add_option("inputs", options->inputs, "Plan, timeline.json or trace.json; one or two")
      ->required()
      ->expected(1, 2);
  command->add_option("-o,--output", options->output, "F.html, F.svg or F.json; default: a text grid");
  command->footer("Example:\n  nestor show runs/icons/plan.json runs/icons/timeline.json -o step.html");
  command->callback([options, &session] { session.action = [options] { return run(*options); }; });
}

}  // namespace nestor::launch
