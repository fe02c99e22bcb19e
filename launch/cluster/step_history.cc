#include <algorithm>
#include <utility>

#include <nestor/launch/cluster/step_history.h>

namespace nestor::launch {

void StepHistory::add(StepRow row) {
  recent_.push_back(std::move(row));
  if (recent_.size() <= keep_) return;
  if (recent_.front().step % every_ == 0) thinned_.push_back(std::move(recent_.front()));
  recent_.pop_front();
  while (thinned_.size() > keep_) {
    every_ *= 2;
    std::erase_if(thinned_, [this](const StepRow& old) { return old.step % every_ != 0; });
  }
}

void StepHistory::go_back_to(std::int64_t step) {
  for (std::deque<StepRow>* rows : {&recent_, &thinned_})
    while (!rows->empty() && rows->back().step > step) rows->pop_back();
}

std::vector<StepRow> StepHistory::after(std::int64_t step, std::size_t limit) const {
  std::vector<StepRow> rows;
  for (const std::deque<StepRow>* part : {&thinned_, &recent_}) {
    const auto first =
        std::partition_point(part->begin(), part->end(), [step](const StepRow& row) { return row.step <= step; });
    const auto count = std::min(static_cast<std::size_t>(part->end() - first), limit - rows.size());
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(count));
  }
  return rows;
}

}  // namespace nestor::launch
