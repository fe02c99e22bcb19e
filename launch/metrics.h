#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/actors/job.h>

namespace nestor::launch {

/// A mean loss over the held-out split.
struct Evaluation {
  double loss = 0;
  std::map<std::string, double> losses;
};

/// A line of metrics.jsonl.
struct StepMetrics {
  actors::StepReport report;  ///< without its timeline
  std::optional<Evaluation> eval;
};

std::string write_metrics_line(const StepMetrics& metrics);  ///< JSON, without the line break
/// Reads a file's lines; one that is not whole (a process killed while writing) ends the reading.
std::vector<StepMetrics> read_metrics(std::string_view text);

/// metrics.jsonl, a line per step, each step once. The file is the only copy: of millions of steps none is kept here
/// but the last.
class MetricsFile {
 public:
  /// Keeps the lines of steps up to `last_step` of what is there, and drops the rest: the checkpoint's step at a
  /// resume, 0 at a fresh start.
  MetricsFile(std::filesystem::path path, std::int64_t last_step);
  /// The line is on its way to the disk when this returns. Throws WorkError where it cannot be written.
  void append(StepMetrics metrics);
  /// The lines of the steps after `step`, in order. Reads the file, unless only the last one is asked for.
  std::vector<StepMetrics> after(std::int64_t step) const;

 private:
  std::filesystem::path path_;
  std::optional<StepMetrics> last_;
};

}  // namespace nestor::launch
