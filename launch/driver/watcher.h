#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nestor/launch/driver/session.h>
#include <nestor/launch/progress.h>

namespace nestor::launch {

/// Shows what a job says and does while a command waits for it: a line per step, or a bar for many; and looks for
/// Ctrl-C: the first one pauses the job, a second one leaves it to itself.
class Watcher {
 public:
  /// `steps` are expected; nothing is known: -1.
  Watcher(DriverContext& context, std::int64_t steps);
  Wait operator()(const JobOutput& output);
  /// Shows what is left to show.
  void finish(const JobRow& row);
  bool interrupted() const;

 private:
  void show_steps(const JobRow& row);

  static constexpr std::int64_t kLines = 20;  ///< of so many steps each has a line

  DriverContext& context_;
  const int signals_;
  std::int64_t shown_, first_, steps_;
  std::optional<Progress> progress_;
};

/// "step 12: loss 4.93  text 4.1  image 0.83  310 samples/s".
std::string step_text(const StepRow& row);
/// What the job has said meanwhile.
void show_news(DriverContext& context);

}  // namespace nestor::launch
