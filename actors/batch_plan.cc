#include <algorithm>
#include <cmath>

#include <nestor/actors/batch_plan.h>
#include <nestor/actors/error.h>
#include <nestor/modules/data/sampler.h>
#include <nestor/scheduler/batching.h>

namespace nestor::actors {
namespace {

using modules::Model;
using modules::Sample;

/// The raw inputs among a node's inputs.
std::vector<std::string_view> raw_inputs(const Model& model, const Model::Node& node) {
  std::vector<std::string_view> names;
  for (modules::Value value : node.inputs) {
    const auto& source = model.nodes()[static_cast<std::size_t>(value.node)];
    if (source.kind == Model::Kind::input) names.push_back(source.name);
  }
  return names;
}

/// Relative: what the sample adds to the node's work; 0 where it lacks one of the inputs.
double sample_cost(const Sample& sample, const std::vector<std::string_view>& inputs) {
  if (inputs.empty()) return 1;
  std::int64_t largest = 0;
  for (std::string_view input : inputs) {
    if (!sample.has(input)) return 0;
    largest = std::max(largest, sample.count(input));
  }
  return static_cast<double>(largest);
}

modules::StepBatch group(const Model& model, std::vector<Sample> samples, std::int64_t step, std::int32_t microbatches,
                         std::int32_t microbatch_size) {
  const auto llm_inputs = raw_inputs(model, model.llm_node());
  std::vector<std::vector<std::string_view>> inputs;
  for (const Model::Node* node : pool_nodes(model)) inputs.push_back(raw_inputs(model, *node));
  std::vector<scheduler::SampleCost> costs;
  costs.reserve(samples.size());
  for (const Sample& sample : samples) {
    scheduler::SampleCost cost{sample_cost(sample, llm_inputs), {}};
    for (const auto& names : inputs) cost.pools.push_back(sample_cost(sample, names));
    costs.push_back(std::move(cost));
  }
  modules::StepBatch batch{step, {}};
  for (const auto& members : scheduler::group_samples(costs, microbatches, microbatch_size)) {
    modules::Microbatch microbatch{step, static_cast<std::int32_t>(batch.microbatches.size()), {}};
    for (std::int32_t member : members) microbatch.samples.push_back(samples[static_cast<std::size_t>(member)]);
    batch.microbatches.push_back(std::move(microbatch));
  }
  return batch;
}

}  // namespace

modules::StepBatch make_step_batch(const Model& model, const modules::Dataset& dataset, const ScheduleOptions& schedule,
                                   std::uint64_t seed, std::int64_t step) {
  const std::int64_t count = std::int64_t{schedule.microbatches} * schedule.microbatch_size;
  const modules::Sampler sampler(dataset, modules::Seed(seed), count);
  return group(model, sampler.step(step - 1), step, schedule.microbatches, schedule.microbatch_size);
}

modules::StepBatch make_evaluation_batch(const modules::Dataset& dataset, const ScheduleOptions& schedule,
                                         std::int64_t samples) {
  modules::StepBatch batch;
  const std::int64_t size = dataset.size(modules::Split::held_out);
  if (size <= 0 || samples <= 0) return batch;
  const auto groups = static_cast<std::int64_t>(dataset.groups(modules::Split::held_out).size());
  batch.microbatches = modules::sweep(dataset, modules::Split::held_out, schedule.microbatch_size,
                                      std::max<std::int64_t>(1, samples / groups));
  for (std::size_t i = 0; i < batch.microbatches.size(); ++i) {
    batch.microbatches[i].step = 0;  // the same noise at every evaluation
    batch.microbatches[i].index = static_cast<std::int32_t>(i);
  }
  return batch;
}

BatchShape shape_of(const Model& model, const modules::StepBatch& batch) {
  BatchShape shape;
  shape.microbatches = static_cast<std::int32_t>(batch.microbatches.size());
  // The LLM works on padded sequences, the pools on what there is.
  std::vector<std::vector<double>> work;
  auto& llm = work.emplace_back();
  const auto llm_inputs = raw_inputs(model, model.llm_node());
  for (const auto& microbatch : batch.microbatches) {
    double longest = 0;
    for (const Sample& sample : microbatch.samples) longest = std::max(longest, sample_cost(sample, llm_inputs));
    llm.push_back(longest * static_cast<double>(microbatch.samples.size()));
  }
  for (const Model::Node* node : pool_nodes(model)) {
    const auto inputs = raw_inputs(model, *node);
    auto& absent = shape.absent.emplace_back();
    auto& pool = work.emplace_back();
    for (const auto& microbatch : batch.microbatches) {
      absent.push_back(!model.present(*node, microbatch));
      double sum = 0;
      for (const Sample& sample : microbatch.samples) sum += sample_cost(sample, inputs);
      pool.push_back(absent.back() ? 0 : sum);
    }
  }
  for (const auto& row : work) {
    double sum = 0;
    int present = 0;
    for (double value : row) {
      sum += value;
      present += value > 0;
    }
    auto& load = shape.load.emplace_back();
    for (double value : row)
      load.push_back(value > 0 ? static_cast<std::int32_t>(
                                     std::clamp(std::lround(BatchShape::kEven * value * present / sum), 1L, 16L))
                               : BatchShape::kEven);
  }
  return shape;
}

std::vector<const Model::Node*> pool_nodes(const Model& model) {
  std::vector<const Model::Node*> pools;
  for (const auto kind : {Model::Kind::encoder, Model::Kind::generator})
    for (const auto& node : model.nodes())
      if (node.kind == kind) pools.push_back(&node);
  return pools;
}

}  // namespace nestor::actors
