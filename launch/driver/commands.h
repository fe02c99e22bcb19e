#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nestor/launch/driver/session.h>

namespace nestor::launch {

/// What a command's next word may be, for completion.
enum class Completes : std::uint8_t { nothing, commands, policies, pools, keys, actors, files };

using Words = std::vector<std::string>;

/// A command of a driver's session.
struct DriverCommand {
  std::string name;
  std::string usage;    ///< of its arguments
  std::string summary;  ///< one line
  std::string example;
  Completes completes = Completes::nothing;
  std::size_t least = 0, most = 0;  ///< arguments
  /// `words` are its arguments, as many as it takes.
  void (*run)(const Words& words, DriverContext& context) = nullptr;
};

/// All of them, in the order of `help`.
const std::vector<DriverCommand>& driver_commands();
/// Runs the command that the words name. Throws InputError for one that does not exist or takes other arguments.
void run_command(const Words& words, DriverContext& context);
/// The names that may stand where `words` ends: its last one is begun, maybe empty. Files are not among them.
std::vector<std::string> completions(const Words& words, DriverContext& context);
/// Is the last of the words a file's name?
bool completes_files(const Words& words);

// commands_*.cc
std::span<const DriverCommand> job_commands();
std::span<const DriverCommand> view_commands();

}  // namespace nestor::launch
