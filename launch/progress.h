#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nestor::launch {

/// How far a long command is, on standard error: a bar that redraws itself on a terminal, elsewhere a plain line every
/// few seconds. One thread at a time.
class Progress {
 public:
  /// `unit` is the word before the count, e.g. "step". `done` is where a resumed run starts.
  Progress(std::string unit, std::int64_t total, std::int64_t done = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `detail` stands behind the count. The time left follows from the pace of the latest updates.
  void update(std::int64_t done, std::string detail);
  /// A line of its own, above the bar.
  void note(const std::string& line);
  /// Draws the last state and ends the line. Further updates are ignored.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw();
  void clear();
  std::string time_left() const;

  std::string unit_, detail_;
  std::int64_t total_, done_, drawn_ = -1;
  bool terminal_, unicode_, finished_ = false;
  double seconds_per_unit_ = 0;
  Clock::time_point last_update_, last_draw_;
};

/// "47 s", "3 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);

}  // namespace nestor::launch
