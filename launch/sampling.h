#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nestor/launch/training_set.h>
#include <nestor/modules/reference_step.h>

namespace nestor::launch {

/// A trained model in one process, reading and drawing. One thread.
class Sampling {
 public:
  /// Builds the model of `set` and gives it `parameters` by canonical name; those of another model are an Error.
  Sampling(const TrainingSet& set, const modules::PartOptions& options,
           const std::vector<std::pair<std::string, torch::Tensor>>& parameters);

  /// Does the model have what this takes? (A head and an encoder of pictures; a generator of pictures.)
  bool can_read() const { return !head_.empty() && reads_pixels_; }
  bool can_draw() const { return !generator_.empty(); }

  /// Names of pictures [n, 3, S, S] in [-1, 1], decoded greedily, at most `limit` tokens each; always UTF-8.
  std::vector<std::string> read(const torch::Tensor& pictures, std::int64_t limit = 24);
  /// A picture [3, S, S] in [-1, 1] for each text. `seed` sets the noise it starts from.
  torch::Tensor draw(const std::vector<std::string>& texts, std::uint64_t seed);

 private:
  const TrainingSet& set_;
  modules::WholeModel model_;
  std::string head_, generator_;
  bool reads_pixels_ = false;
};

}  // namespace nestor::launch
