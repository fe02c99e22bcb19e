#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <nestor/launch/driver/target.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/run.h>

namespace nestor::launch {

/// What a driver's commands work on.
struct DriverContext {
  DriverTarget& target;
  ModelBuilder build;      ///< for `generate`
  Interrupts& interrupts;  ///< Ctrl-C during a command pauses the job
  std::ostream& out;
  std::int32_t width = 100;             ///< of the terminal, in characters
  bool unicode = true;                  ///< the terminal shows it
  std::vector<std::string> lines = {};  ///< of the session so far
  bool left = false;                    ///< `quit`
};

/// Where a session's lines come from.
class LineSource {
 public:
  virtual ~LineSource() = default;
  /// The next line; nothing at the end, and once a signal has asked to leave.
  virtual std::optional<std::string> next() = 0;
  /// A person types them: errors do not end the session.
  virtual bool interactive() const = 0;
};

/// Runs lines until they end, `quit`, or an error of a script (unless it is told to keep going). Errors go to standard
/// error, a line each. Returns the exit code: of the first line that failed, 128 and the signal where one ended it.
int run_session(LineSource& lines, DriverContext& context, bool keep_going);

}  // namespace nestor::launch
