#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <torch/torch.h>

#include <nestor/modules/seed.h>

namespace nestor::modules {

using Tensor = torch::Tensor;
using Tensors = std::vector<Tensor>;  ///< an undefined tensor is "none": absent, taken as zeros

enum class Split : std::uint8_t { train, held_out };

/// A sample's descriptor: what is known of it without reading it. Every lane derives lengths, masks and loss counts
/// from these, so that no lane asks another.
struct Sample {
  std::int64_t id = 0;    ///< index in its split; the randomness of the sample hangs on it
  std::int32_t draw = 0;  ///< which draw of that id within the run (epoch), for augmentation and the task
  Split split = Split::train;
  /// By input name: tokens → length in tokens, labels → labelled tokens, pixels/target → images. 0 or missing: absent.
  std::map<std::string, std::int64_t, std::less<>> counts;

  std::int64_t count(std::string_view input) const {
    auto found = counts.find(input);
    return found == counts.end() ? 0 : found->second;
  }
  bool has(std::string_view input) const { return count(input) > 0; }
};

/// The samples that run through the model together.
struct Microbatch {
  std::int64_t step = 0;
  std::int32_t index = 0;  ///< within the step, in the batch plan's numbering
  std::vector<Sample> samples;

  bool has(std::string_view input) const;
  std::int64_t max_count(std::string_view input) const;
  std::int64_t count(std::string_view input) const;  ///< summed over samples
};

/// Label of a position that no loss counts.
inline constexpr std::int64_t ignored_label = -100;

/// A range of a split's ids that is drawn with a fixed share of every step: a task, say.
struct SampleGroup {
  std::string name;
  std::int64_t first = 0;
  std::int64_t size = 0;
  std::int32_t weight = 1;  ///< its share of a step is weight / sum of weights
};

/// Samples by descriptor and by content. Reading is pure and thread-safe: every lane reads its own inputs.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size(Split split) const = 0;
  /// Descriptor of draw `draw` of sample `id`. Cheap: no file is read.
  virtual Sample describe(Split split, std::int64_t id, std::int32_t draw) const = 0;
  /// The collated tensor of one input over those samples of the microbatch that have it; undefined where none has.
  /// Token-like inputs are int64 [samples, longest] over ALL samples, padded on the right; images are float32
  /// [images, 3, H, W] in [-1, 1] of the samples that have one, in order. "labels" is as wide as "tokens": the entry at
  /// a position is the token to be predicted there (already shifted), or ignored_label.
  virtual Tensor read(std::string_view input, const Microbatch& microbatch) const = 0;
  /// Disjoint ranges that cover [0, size(split)). The default is one group of everything.
  virtual std::vector<SampleGroup> groups(Split split) const;
  /// The text that belongs to a sample, for reports; empty where there is none.
  virtual std::string caption(const Sample& sample) const;
};

/// Everything that a step trains on, fixed by (seed, step) alone.
struct StepBatch {
  std::int64_t step = 0;
  std::vector<Microbatch> microbatches;
};

}  // namespace nestor::modules
