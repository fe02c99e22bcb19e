#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/prepare_icons.h>

namespace nestor::launch {

void add_prepare(CLI::App& program, Session& session) {
  auto command = program.add_subcommand("prepare", "Make a data set ready to train on");
  command->require_subcommand(1);
  command->footer("Example:\n  nestor prepare icons");

  auto options = std::make_shared<IconOptions>();
  auto icons = command->add_subcommand("icons", "The Tango icon theme (public domain) as pictures with captions");
  icons->add_option("--from", options->theme, "The theme's folder")->capture_default_str();
  icons->add_option("-o,--output", options->output, "Where to put them; an earlier set there is replaced")
      ->capture_default_str();
  icons->footer("Example:\n  nestor prepare icons -o data/icons");
  icons->callback([options, &session] {
    session.action = [options] {
      auto count = prepare_icons(*options);
      fmt::print(stderr, "{}: {} pictures, {} captions\n", options->output.string(), count.pictures, count.captions);
      return 0;
    };
  });
}

}  // namespace nestor::launch
