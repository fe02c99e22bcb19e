#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include <nestor/launch/driver/commands.h>
#include <nestor/launch/driver/parser.h>
#include <nestor/launch/driver/watcher.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/scheduler/render/html.h>
#include <nestor/scheduler/render/svg.h>
#include <nestor/scheduler/timeline.h>

// Commands that change the job or move it on.

namespace nestor::launch {
namespace {

/// What became of a wait, where it is not what was asked for.
void say_where(const JobRow& row, const Watcher& watcher, DriverContext& context) {
  if (row.state == "paused" && row.step >= row.steps)
    context.out << fmt::format("all {} steps are done\n", row.steps);
  else if (row.state == "paused")
    context.out << fmt::format("paused after step {} of {}\n", row.step, row.steps);
  else if (watcher.interrupted())
    context.out << "left to itself: it pauses after the step under way\n";
}

void step(const Words& words, DriverContext& context) {
  const std::int64_t steps = words.empty() ? 1 : whole_number(words[0], "steps", 1, kMostSteps);
  const JobRow before = context.target.status().job;
  if (before.steps > 0 && before.step >= before.steps && before.state == "paused")
    throw InputError("step", fmt::format("all {} steps are done", before.steps), "set run.steps=N for more");
  Watcher watcher(context, steps);
  const JobRow row = context.target.step(steps, [&](const JobOutput& output) { return watcher(output); });
  watcher.finish(row);
  if (row.step < before.step + steps) say_where(row, watcher, context);
}

void run(const Words&, DriverContext& context) {
  Watcher watcher(context, -1);
  const JobRow row = context.target.run([&](const JobOutput& output) { return watcher(output); });
  watcher.finish(row);
  say_where(row, watcher, context);
}

void pause(const Words&, DriverContext& context) {
  Watcher watcher(context, 1);
  const JobRow row = context.target.pause([&](const JobOutput& output) { return watcher(output); });
  watcher.finish(row);
  say_where(row, watcher, context);
}

void policy(const Words& words, DriverContext& context) {
  context.target.policy(words[0]);
}

void resize(const Words& words, DriverContext& context) {
  std::string text = words[1];
  for (std::size_t i = 2; i < words.size(); ++i) text += "," + words[i];  // resize vision 0 1
  const Members members = parse_members(text);
  if (members.list) {
    context.target.resize(words[0], members.numbers);
  } else {
    context.target.resize(words[0], members.numbers[0]);
  }
}

void set(const Words& words, DriverContext& context) {
  std::string assignment;  // run.steps = 20 is as good
  for (const std::string& word : words) assignment += word;
  if (assignment.find('=') == std::string::npos) throw InputError("set", "needs KEY=VALUE", "e.g. set run.steps=200");
  context.target.set(assignment);
}

void checkpoint(const Words&, DriverContext& context) {
  context.target.checkpoint();
}

void trace(const Words& words, DriverContext& context) {
  const std::filesystem::path file = words[0];
  const std::string ending = file.extension().string();
  if (ending != ".json" && ending != ".html" && ending != ".svg")
    throw InputError("trace", "\"" + one_line(words[0], 60) + "\" ends in none of .json, .html, .svg",
                     "e.g. trace step.json, which Perfetto opens");
  check_writable(file);
  const scheduler::Timeline timeline = context.target.trace();
  show_news(context);
  for (const StepRow& row : context.target.history(timeline.step - 1))
    if (row.step == timeline.step) context.out << step_text(row) << '\n';
  write_aside(file, ending == ".html"  ? scheduler::render_html("step " + std::to_string(timeline.step), {&timeline, 1})
                    : ending == ".svg" ? scheduler::render_svg(timeline)
                                       : scheduler::write_trace(timeline));
  context.out << file.string() << '\n';
}

void stop(const Words&, DriverContext& context) {
  if (context.target.stop()) {
    context.out << "the job finishes its step, saves and ends\n";
  } else {
    context.left = true;
  }
}

const std::array kJobCommands{
    DriverCommand{"step", "[N]", "Take N further steps (1), then pause", "step 10", Completes::nothing, 0, 1, step},
    DriverCommand{"run", "", "Run to the end; Ctrl-C pauses", "run", Completes::nothing, 0, 0, run},
    DriverCommand{"pause", "", "Pause after the step under way", "pause", Completes::nothing, 0, 0, pause},
    DriverCommand{"stop", "", "End the job after the step under way, saved", "stop", Completes::nothing, 0, 0, stop},
    DriverCommand{"policy", "NAME", "Another schedule from the next step on", "policy nested", Completes::policies, 1,
                  1, policy},
    DriverCommand{"resize", "POOL N|LANES", "Members of a pool from the next step on: how many, or on which lanes",
                  "resize vision 0,1", Completes::pools, 2, 65536, resize},
    DriverCommand{"set", "KEY=VALUE", "Change a key of the config's run section", "set run.steps=200", Completes::keys,
                  1, 3, set},
    DriverCommand{"checkpoint", "", "Save now", "checkpoint", Completes::nothing, 0, 0, checkpoint},
    DriverCommand{"trace", "FILE", "Take the next step, measure it and draw it (.json, .html or .svg)",
                  "trace step.html", Completes::files, 1, 1, trace},
};

}  // namespace

std::span<const DriverCommand> job_commands() {
  return kJobCommands;
}

}  // namespace nestor::launch
