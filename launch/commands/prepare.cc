#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <nestor/launch/commands/command.h>
#include <nestor/launch/error.h>
#include <nestor/modules/data/icons.h>

namespace nestor::launch {
namespace {

struct PrepareOptions {
  std::filesystem::path theme = "/usr/share/icons/Tango";  // where Debian's tango-icon-theme puts it
  std::filesystem::path output = "data/icons";
  modules::IconOptions icons;
};

int run(const PrepareOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(options.theme, error))
    throw InputError(options.theme.string(), "there is no icon theme",
                     "apt install tango-icon-theme, or name a theme's folder with --from");
  auto set = modules::prepare_icons(options.theme, options.output, options.icons);
  fmt::print(stderr, "{}: {} pictures, {} captions, {} held out{}\n", options.output.string(), set.pictures,
             set.captions, set.held_out, set.made ? "" : "; it was there already");
  return 0;
}

}  // namespace

void add_prepare(CLI::App& program, Session& session) {
  auto command = program.add_subcommand("prepare", "Make a data set ready to train on");
  command->require_subcommand(1);
  command->footer("Example:\n  nestor prepare icons");

  auto options = std::make_shared<PrepareOptions>();
  auto icons = command->add_subcommand("icons", "The Tango icon theme (public domain) as pictures with captions");
  icons->add_option("--from", options->theme, "The theme's folder")->capture_default_str();
  icons->add_option("-o,--output", options->output, "Where to put them; an earlier set there is replaced")
      ->capture_default_str();
  icons->add_option("--size", options->icons.size, "Side in pixels of the icons to train on")->capture_default_str();
  icons
      ->add_option("--held-out-size", options->icons.held_out_size,
                   "The same icons as drawn for this size become held-out rows; 0: none")
      ->capture_default_str();
  icons->footer("Example:\n  nestor prepare icons --held-out-size 22 -o data/icons");
  icons->callback([options, &session] { session.action = [options] { return run(*options); }; });
}

}  // namespace nestor::launch
