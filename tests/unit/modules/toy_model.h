#pragma once

#include <map>
#include <string>
#include <vector>

#include <nestor/modules/modules.h>

namespace nestor::test {

using modules::Tensor;
using modules::Tensors;

inline constexpr std::int64_t kWidth = 8, kVocabulary = 11, kPixels = 6, kTarget = 5;

/// A model with everything that makes pipelines hard, in a few lines each: an encoder with three outputs (two views of
/// one tensor, one that nobody uses), a second encoder, layers whose second output is a view of the first or absent, a
/// loss of the layers' own, dropout, a generator that reads the LLM and an encoder, and (tied) head.
struct ToyOptions {
  int layers = 4;
  bool audio = true;
  bool generator = true;
  bool tied = true;
  std::vector<std::string> frozen;
};
modules::Model toy_model(const ToyOptions& options = {});

/// Content is a pure function of (input, sample).
class ToyDataset : public modules::Dataset {
 public:
  std::int64_t size(modules::Split) const override { return 1000; }
  modules::Sample describe(modules::Split split, std::int64_t id, std::int32_t draw) const override;
  Tensor read(std::string_view input, const modules::Microbatch& microbatch) const override;
};

/// One microbatch per entry: "vat" is a sample with vision, audio and target, "" one of text alone; samples are parted
/// by commas. Lengths differ.
modules::StepBatch toy_batch(const std::vector<std::string>& microbatches, std::int64_t step = 3);

struct Outcome {
  modules::LossSums sums;
  std::map<std::string, Tensor> gradients;  ///< undefined where absent
};

/// The step with the plain loop.
Outcome reference_outcome(const modules::Model& model, const modules::StepBatch& batch, torch::Dtype dtype);
/// The step with parts cut before the layers `cuts`; one store for all (one lane), or one each (a lane each). All
/// microbatches are in flight together: all forwards, then all backwards, as under GPipe.
Outcome part_outcome(const modules::Model& model, const modules::StepBatch& batch, torch::Dtype dtype,
                     const std::vector<int>& cuts, bool one_lane, bool use_outline = true);

/// Largest difference over all gradients and loss sums, relative to the largest gradient entry. Also fails the test
/// where one of the two has a gradient that the other lacks (unless it is zero).
double difference(const Outcome& a, const Outcome& b);

}  // namespace nestor::test
