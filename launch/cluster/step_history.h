#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <nestor/launch/cluster/job_rows.h>

namespace nestor::launch {

/// The steps of a training as curves show them, in bounded memory however long it runs: the latest `keep` steps, and of
/// those before every second, fourth, ... so that at most `keep` of them are left. One thread at a time.
class StepHistory {
 public:
  explicit StepHistory(std::size_t keep) : keep_(keep) {}

  /// The step after the last one.
  void add(StepRow row);
  /// The training went back: forgets the steps after `step`.
  void go_back_to(std::int64_t step);
  bool empty() const { return recent_.empty() && thinned_.empty(); }
  std::size_t size() const { return recent_.size() + thinned_.size(); }
  /// Not empty.
  const StepRow& last() const { return recent_.empty() ? thinned_.back() : recent_.back(); }
  /// What is left of the steps after `step`, in order, at most `limit` of them.
  std::vector<StepRow> after(std::int64_t step, std::size_t limit) const;

 private:
  const std::size_t keep_;
  std::int64_t every_ = 1;       ///< thinned_ holds the multiples of it
  std::deque<StepRow> thinned_;  ///< all before recent_
  std::deque<StepRow> recent_;
};

}  // namespace nestor::launch
