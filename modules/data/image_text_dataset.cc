#include <algorithm>

#include <nestor/modules/data/collate.h>
#include <nestor/modules/data/image_text_dataset.h>
#include <nestor/modules/data/image_text_split.h>
#include <nestor/modules/data/random.h>
#include <nestor/modules/error.h>

namespace nestor::modules {
namespace {

/// One draw of one id, resolved: everything that its descriptor and its content follow from.
struct Resolved {
  Task task;
  std::int32_t picture;
  std::int32_t caption;  ///< -1: dropped
  std::int64_t shift_x = 0, shift_y = 0;
};

/// The picture moved by (x, y) pixels, white where it left.
Tensor shifted(const Tensor& picture, std::int64_t x, std::int64_t y) {
  if (x == 0 && y == 0) return picture;
  const std::int64_t height = picture.size(1), width = picture.size(2);
  auto moved = torch::full_like(picture, 255);
  moved.narrow(1, std::max<std::int64_t>(y, 0), height - std::abs(y))
      .narrow(2, std::max<std::int64_t>(x, 0), width - std::abs(x))
      .copy_(picture.narrow(1, std::max<std::int64_t>(-y, 0), height - std::abs(y))
                 .narrow(2, std::max<std::int64_t>(-x, 0), width - std::abs(x)));
  return moved;
}

}  // namespace

struct ImageTextDataset::Impl {
  Manifest manifest;
  Tokenizer tokenizer;
  ImageTextOptions options;
  Seed stream;
  SplitItems items;
  /// By split and task: what its ids stand for.
  struct Range {
    Task task;
    SampleGroup group;
    std::vector<SplitItem> items;
  };
  std::vector<Range> ranges[2];
  std::vector<std::vector<std::vector<std::int64_t>>> tokens;  ///< by picture and caption
  std::vector<Tensor> cache;                                   ///< by picture; undefined beyond cache_bytes

  Impl(Manifest m, Tokenizer t, ImageTextOptions o)
      : manifest(std::move(m)),
        tokenizer(std::move(t)),
        options(std::move(o)),
        stream(options.seed.child("data")),
        items(divide(manifest, options.held_out, options.held_out_captions)) {
    for (const auto& [task, weight] : options.tasks) {
      add_range(Split::train, task, weight, items.train);
      auto out = items.held_out;
      if (task == Task::draw) {
        out.insert(out.end(), items.held_out_captions.begin(), items.held_out_captions.end());
      }
      add_range(Split::held_out, task, weight, std::move(out));
    }
    const std::int64_t bytes = 3 * options.image_size * options.image_size;
    for (std::size_t i = 0; i < manifest.pictures.size(); ++i) {
      auto& captions = tokens.emplace_back();
      for (const auto& caption : manifest.pictures[i].captions) captions.push_back(tokenizer.encode(caption.text));
      const bool kept = static_cast<std::int64_t>(i + 1) * bytes <= options.cache_bytes;
      cache.push_back(kept ? decode(i) : Tensor());
    }
  }

  void add_range(Split split, Task task, std::int32_t weight, std::vector<SplitItem> of) {
    auto& all = ranges[static_cast<std::size_t>(split)];
    const std::int64_t first = all.empty() ? 0 : all.back().group.first + all.back().group.size;
    SampleGroup group{std::string(task_name(task)), first, static_cast<std::int64_t>(of.size()), weight};
    all.push_back({task, std::move(group), std::move(of)});
  }

  Tensor decode(std::size_t picture) const {
    return resize_image(read_image_bytes(manifest.folder / manifest.pictures[picture].file), options.image_size,
                        options.fit);
  }

  Tensor picture(std::int32_t index) const {
    const auto& kept = cache[static_cast<std::size_t>(index)];
    return kept.defined() ? kept : decode(static_cast<std::size_t>(index));
  }

  Resolved resolve(Split split, std::int64_t id, std::int32_t draw) const {
    for (const auto& range : ranges[static_cast<std::size_t>(split)]) {
      if (id < range.group.first || id >= range.group.first + range.group.size) continue;
      const SplitItem item = range.items[static_cast<std::size_t>(id - range.group.first)];
      Resolved resolved{range.task, item.picture, item.caption};
      if (split == Split::train) vary(resolved, id, draw);
      return resolved;
    }
    throw Error("sample " + std::to_string(id), "is not in this split", "ids run from 0 to size(split) - 1");
  }

  void vary(Resolved& resolved, std::int64_t id, std::int32_t draw) const {
    RandomStream random(stream.child(id).child(draw));
    const auto& names = items.alternatives[static_cast<std::size_t>(resolved.picture)];
    if (resolved.task == Task::read) {
      resolved.shift_x = random.below(2 * options.augment + 1) - options.augment;
      resolved.shift_y = random.below(2 * options.augment + 1) - options.augment;
    } else if (resolved.task == Task::draw && random.uniform() < options.drop_caption) {
      resolved.caption = -1;
    } else if (names.size() > 1 && random.below(2) == 1) {
      const auto other = 1 + random.below(static_cast<std::int64_t>(names.size()) - 1);
      resolved.caption = names[static_cast<std::size_t>(other)];
    }
  }

  const std::vector<std::int64_t>& caption_tokens(const Resolved& resolved) const {
    static const std::vector<std::int64_t> none;
    if (resolved.caption < 0) return none;
    return tokens[static_cast<std::size_t>(resolved.picture)][static_cast<std::size_t>(resolved.caption)];
  }

  Resolved resolve(const Sample& sample) const { return resolve(sample.split, sample.id, sample.draw); }
};

ImageTextDataset::ImageTextDataset(Manifest manifest, Tokenizer tokenizer, ImageTextOptions options)
    : impl_(std::make_unique<Impl>(std::move(manifest), std::move(tokenizer), std::move(options))) {}
ImageTextDataset::~ImageTextDataset() = default;

std::int64_t ImageTextDataset::size(Split split) const {
  const auto& ranges = impl_->ranges[static_cast<std::size_t>(split)];
  return ranges.empty() ? 0 : ranges.back().group.first + ranges.back().group.size;
}

std::vector<SampleGroup> ImageTextDataset::groups(Split split) const {
  std::vector<SampleGroup> groups;
  for (const auto& range : impl_->ranges[static_cast<std::size_t>(split)]) groups.push_back(range.group);
  return groups;
}

Sample ImageTextDataset::describe(Split split, std::int64_t id, std::int32_t draw) const {
  const Resolved resolved = impl_->resolve(split, id, draw);
  const auto length = static_cast<std::int64_t>(impl_->caption_tokens(resolved).size());
  const auto& options = impl_->options;
  Sample sample{id, draw, split, {}};
  sample.counts["tokens"] = prompt_length(resolved.task, options.image_tokens, length);
  const std::int64_t labels = prompt_labels(resolved.task, length, options.label_drawn);
  if (labels > 0) sample.counts["labels"] = labels;
  if (resolved.task == Task::read) sample.counts["pixels"] = 1;
  if (resolved.task == Task::draw) sample.counts["target"] = 1;
  return sample;
}

Tensor ImageTextDataset::read(std::string_view input, const Microbatch& microbatch) const {
  const bool tokens = input == "tokens", labels = input == "labels";
  if (!tokens && !labels && input != "pixels" && input != "target") {
    throw Error("input \"" + std::string(input) + "\"", "this data has no such input",
                "it has tokens, labels, pixels and target");
  }
  if (!microbatch.has(input)) return {};
  if (tokens || labels) {
    std::vector<std::vector<std::int64_t>> rows;
    for (const auto& sample : microbatch.samples) {
      const Resolved resolved = impl_->resolve(sample);
      auto prompt = make_prompt(resolved.task, impl_->options.image_tokens, impl_->caption_tokens(resolved),
                                impl_->options.label_drawn);
      rows.push_back(std::move(tokens ? prompt.tokens : prompt.labels));
    }
    return collate_tokens(rows, tokens ? id(SpecialToken::pad) : ignored_label);
  }
  std::vector<Tensor> pictures;
  for (const auto& sample : microbatch.samples) {
    if (!sample.has(input)) continue;
    const Resolved resolved = impl_->resolve(sample);
    pictures.push_back(shifted(impl_->picture(resolved.picture), resolved.shift_x, resolved.shift_y));
  }
  return to_unit_range(torch::stack(pictures));
}

std::string ImageTextDataset::caption(const Sample& sample) const {
  const Resolved resolved = impl_->resolve(sample);
  if (resolved.caption < 0) return {};
  return impl_->manifest.pictures[static_cast<std::size_t>(resolved.picture)]
      .captions[static_cast<std::size_t>(resolved.caption)]
      .text;
}

Task ImageTextDataset::task(const Sample& sample) const {
  return impl_->resolve(sample).task;
}
const Tokenizer& ImageTextDataset::tokenizer() const {
  return impl_->tokenizer;
}
const ImageTextOptions& ImageTextDataset::options() const {
  return impl_->options;
}
Tensor ImageTextDataset::picture(const Sample& sample) const {
  return impl_->picture(impl_->resolve(sample).picture);
}

}  // namespace nestor::modules
