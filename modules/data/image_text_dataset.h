#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nestor/modules/batch.h>
#include <nestor/modules/data/image.h>
#include <nestor/modules/data/manifest.h>
#include <nestor/modules/data/prompt.h>
#include <nestor/modules/data/tokenizer.h>

namespace nestor::modules {

struct ImageTextOptions {
  std::int64_t image_size = 32;
  Fit fit = Fit::pad;
  std::int64_t image_tokens = 0;  ///< positions in the sequence that the encoder's embeddings of one picture take
  std::vector<std::pair<Task, std::int32_t>> tasks = {{Task::read, 1}, {Task::draw, 1}};  ///< with their weights
  double held_out = 0;           ///< pictures kept from training: a share below 1, else a count
  double held_out_captions = 0;  ///< further captions kept from training: a share of them below 1, else a count
  double drop_caption = 0;       ///< probability that a training draw has an empty caption (for guidance)
  bool label_drawn = false;      ///< predict the caption in `draw` too
  std::int64_t augment = 0;      ///< training pictures to read are shifted by up to this many pixels each way
  std::int64_t cache_bytes = std::int64_t{256} << 20;  ///< decoded pictures kept in memory
  Seed seed = Seed(1);                                 ///< of the run: captions, drops and shifts of a draw
};

/// Pictures and their captions as tasks to read and to draw. Inputs: "tokens", "labels", "pixels" (task read) and
/// "target" (task draw); the layout of the tokens is Prompt's.
///
/// Ids of a split: the pictures once for each task, in the order of `tasks`; each task is a group. In training a draw
/// takes the picture's first caption every other time and else one of the others. What is held out does not depend on
/// the run's seed, only on file names and captions (or on what a table says):
/// - pictures: read and drawn by their first caption. Tells whether words and shapes carry over to pictures never seen.
/// - captions: drawn alone, since the picture's name to be read is its first caption. Tells whether a new name of a
///   known picture is understood.
/// Pictures are decoded once, when the dataset is made, up to cache_bytes, beyond that at each read. Any thread.
class ImageTextDataset : public Dataset {
 public:
  /// Throws Error for a picture that cannot be read and for options that leave nothing to train on.
  ImageTextDataset(Manifest manifest, Tokenizer tokenizer, ImageTextOptions options);
  ~ImageTextDataset() override;

  std::int64_t size(Split split) const override;
  Sample describe(Split split, std::int64_t id, std::int32_t draw) const override;
  Tensor read(std::string_view input, const Microbatch& microbatch) const override;
  std::vector<SampleGroup> groups(Split split) const override;
  std::string caption(const Sample& sample) const override;

  Task task(const Sample& sample) const;
  const Tokenizer& tokenizer() const;
  const ImageTextOptions& options() const;
  /// The picture of a sample as uint8 [3, S, S], whatever its task, without augmentation.
  Tensor picture(const Sample& sample) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace nestor::modules
