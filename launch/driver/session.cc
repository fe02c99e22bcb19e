#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include <nestor/launch/driver/commands.h>
#include <nestor/launch/driver/parser.h>
#include <nestor/launch/driver/session.h>
#include <nestor/launch/driver/watcher.h>
#include <nestor/launch/exit.h>
#include <nestor/launch/files.h>

namespace nestor::launch {

int run_session(LineSource& lines, DriverContext& context, bool keep_going) {
  const bool script = !lines.interactive();
  int code = success;
  for (std::size_t number = 1; !context.left; ++number) {
    try {
      if (!script) show_news(context);  // what other drivers did while nobody typed
      const auto line = lines.next();
      if (!line) break;
      const auto words = split_words(*line);
      if (words.empty()) continue;
      context.lines.push_back(*line);
      run_command(words, context);
      if (!context.left) show_news(context);
    } catch (...) {
      context.out.flush();
      auto [failure, text] = exit_of(std::current_exception());
      fmt::print(stderr, "nestor: {}{}\n", script ? fmt::format("driver:{}: ", number) : "", one_line(text, 1000));
      if (script && code == success) code = failure;
      if (script && !keep_going) break;
    }
  }
  context.out.flush();
  if (script && code == success && context.interrupts.requested() != 0) code = 128 + context.interrupts.requested();
  return code;
}

}  // namespace nestor::launch
