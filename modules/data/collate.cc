#include <algorithm>

#include <nestor/modules/data/collate.h>

namespace nestor::modules {

Tensor collate_tokens(const std::vector<std::vector<std::int64_t>>& rows, std::int64_t padding) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  auto batch =
      torch::full({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)}, padding, torch::kInt64);
  auto* out = batch.data_ptr<std::int64_t>();
  for (const auto& row : rows) {
    std::copy(row.begin(), row.end(), out);
    out += longest;
  }
  return batch;
}

}  // namespace nestor::modules
