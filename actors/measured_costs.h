#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <nestor/actors/messages.h>
#include <nestor/actors/workload_from_model.h>

namespace nestor::actors {

/// What operators took in the last steps, by place. Waiting is not counted.
class MeasuredCosts {
 public:
  void add(const LanePlan& plan, const LaneReport& report);
  /// Counts a step. Medians of the last operators of every place, where it is time to look (after steps 3, 10, 30, then
  /// every 50: the first ones run cold) and they differ from `costs` so much that the plan may change. What has no
  /// measure keeps its ratio to the others.
  std::optional<StageCosts> step_done(const StageCosts& costs);

 private:
  /// The last durations of one kind of operator at one place.
  struct Window {
    static constexpr std::size_t kKept = 32;
    std::array<double, kKept> seconds{};
    std::size_t count = 0;
    void add(double value) { seconds[count++ % kKept] = value; }
    double median() const;
  };
  std::vector<Window> forward_, backward_;
  std::int64_t steps_ = 0;
};

}  // namespace nestor::actors
