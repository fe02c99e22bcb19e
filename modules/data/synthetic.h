#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/modules/batch.h>

namespace nestor::modules {

struct SyntheticImage {
  std::string input;
  double probability = 0.5;      ///< that a sample has one
  std::int64_t tokens = 0;       ///< its positions in the text; 0 for a generator's target
  std::int64_t placeholder = 0;  ///< token at those positions
};

struct SyntheticOptions {
  std::int64_t samples = 1024;
  std::int64_t held_out = 64;
  std::int64_t vocabulary = 64;  ///< words are drawn from [first_word, vocabulary)
  std::int64_t shortest = 4;     ///< words of a sample
  std::int64_t longest = 12;
  std::int64_t image_size = 16;
  double labels = 1.0;  ///< probability that a sample's words are predicted
  std::vector<SyntheticImage> images;
  /// Overrides what was drawn: whether this sample has "labels" or an image input. For tests that need a text-only
  /// step or a certain mixture. Must be pure.
  std::function<bool(const Sample& sample, std::string_view input, bool drawn)> presence;
  Seed seed = Seed(1);
};

/// Random samples for tests, examples and benchmarks: length, presence and content of every input come from
/// (seed, split, id, draw). Text: [begin], placeholders of each image that the sample has, then words; each word and
/// the end is predicted from the position before. No file is read. Any thread.
class SyntheticDataset : public Dataset {
 public:
  static constexpr std::int64_t first_word = 16;
  /// Throws Error for a length, probability or size that cannot be.
  explicit SyntheticDataset(SyntheticOptions options);

  std::int64_t size(Split split) const override;
  Sample describe(Split split, std::int64_t id, std::int32_t draw) const override;
  Tensor read(std::string_view input, const Microbatch& microbatch) const override;
  std::string caption(const Sample& sample) const override;
  const SyntheticOptions& options() const { return options_; }

 private:
  struct Content;
  Seed stream(const Sample& sample) const;
  Content content(const Sample& sample) const;
  Tensor images(std::string_view input, const Microbatch& microbatch) const;

  SyntheticOptions options_;
};

}  // namespace nestor::modules
