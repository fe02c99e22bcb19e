#include <nestor/modules/train/counts.h>

namespace nestor::modules {
namespace {

/// Calls f(name, count function, weight) for every loss of the model: generators, then losses.
template <class F>
void each_loss(const Model& model, F f) {
  for (const auto& node : model.nodes())
    if (node.kind == Model::Kind::generator) f(node.name, node.count, node.weight);
  for (const auto& loss : model.losses()) f(loss.name, loss.loss.count, loss.weight);
}

}  // namespace

StepCounts step_counts(const Model& model, const StepBatch& batch) {
  StepCounts result;
  each_loss(model, [&](const std::string& name, const CountFunction& count, double weight) {
    std::int64_t total = 0;
    for (const auto& microbatch : batch.microbatches)
      for (const auto& sample : microbatch.samples) total += count(sample);
    if (total < 0) throw Error("model.loss." + name, "its count is negative", "counts are 0 and up");
    result.counts[name] = total;
    result.scales[name] = total == 0 ? 0 : weight / static_cast<double>(total);
  });
  for (const auto& microbatch : batch.microbatches) {
    result.samples += static_cast<std::int64_t>(microbatch.samples.size());
    for (Value value : model.llm_node().inputs) {
      const auto& input = model.nodes()[static_cast<std::size_t>(value.node)];
      if (input.kind == Model::Kind::input) result.tokens += microbatch.count(input.name);
    }
  }
  return result;
}

LossMeans loss_means(const Model& model, const StepCounts& counts, const LossSums& sums) {
  LossMeans result;
  each_loss(model, [&](const std::string& name, const CountFunction&, double weight) {
    auto sum = sums.find(name);
    auto count = counts.counts.at(name);
    double mean = sum == sums.end() || count == 0 ? 0 : sum->second / static_cast<double>(count);
    result.losses[name] = mean;
    result.total += weight * mean;
  });
  return result;
}

void add_to(LossSums& total, const LossSums& more) {
  for (const auto& [name, sum] : more) total[name] += sum;
}

}  // namespace nestor::modules
