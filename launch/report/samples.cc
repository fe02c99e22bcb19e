#include <algorithm>
#include <optional>

#include <nestor/launch/report/samples.h>
#include <nestor/modules/data/image.h>
#include <nestor/modules/data/image_text_dataset.h>

namespace nestor::launch {
namespace {

using modules::ImageTextDataset;
using modules::Sample;
using modules::Split;
using modules::Task;

/// Samples of one task, by their first caption.
std::vector<Sample> of_task(const ImageTextDataset& dataset, Split split, Task task) {
  std::vector<Sample> samples;
  for (std::int64_t id = 0; id < dataset.size(split); ++id) {
    auto sample = dataset.describe(split, id, 0);
    if (dataset.task(sample) == task) samples.push_back(std::move(sample));
  }
  return samples;
}

/// `count` of them, spread evenly.
template <class T>
std::vector<T> spread(const std::vector<T>& all, std::size_t count) {
  if (all.size() <= count) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

std::string png(const torch::Tensor& picture) {
  return modules::encode_png(picture);
}

}  // namespace

void add_samples(ReportData& data, const TrainingSet& set, Sampling& sampling, std::int64_t shown,
                 const std::function<bool()>& stop) {
  constexpr std::size_t batch = 32;
  auto dataset = std::dynamic_pointer_cast<const ImageTextDataset>(set.dataset);
  if (!dataset || shown <= 0) return;

  if (sampling.can_read()) {
    std::vector<Reading> all;
    for (auto split : {Split::train, Split::held_out}) {
      auto samples = of_task(*dataset, split, Task::read);
      for (std::size_t first = 0; first < samples.size() && !stop(); first += batch) {
        auto last = std::min(first + batch, samples.size());
        std::vector<torch::Tensor> bytes;
        for (auto i = first; i < last; ++i) bytes.push_back(dataset->picture(samples[i]));
        auto names = sampling.read(modules::to_unit_range(torch::stack(bytes)));
        for (std::size_t i = 0; i < names.size(); ++i) {
          auto truth = dataset->caption(samples[first + i]);
          bool right = names[i] == truth, held_out = split == Split::held_out;
          (held_out ? data.held_out_right : data.read_right) += right;
          ++(held_out ? data.held_out_total : data.read_total);
          if (!held_out) all.push_back({png(bytes[i]), truth, names[i], right});
        }
      }
    }
    data.readings = spread(all, static_cast<std::size_t>(shown));
  }

  if (sampling.can_draw()) {
    auto samples = spread(of_task(*dataset, Split::train, Task::draw), static_cast<std::size_t>(shown));
    for (std::size_t first = 0; first < samples.size() && !stop(); first += batch) {
      auto last = std::min(first + batch, samples.size());
      std::vector<std::string> texts;
      for (auto i = first; i < last; ++i) texts.push_back(dataset->caption(samples[i]));
      auto pictures = sampling.draw(texts, 1);
      for (std::size_t i = 0; i < texts.size(); ++i)
        data.drawings.push_back(
            {texts[i], png(pictures[static_cast<std::int64_t>(i)]), png(dataset->picture(samples[first + i]))});
    }
  }
}

}  // namespace nestor::launch
