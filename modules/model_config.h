#pragma once

#include <cstdint>
#include <string>

#include <nestor/modules/data/dataset_config.h>
#include <nestor/modules/model.h>

namespace nestor::modules {

/// The `model` section of nestor.train/1 as a model of the dataset `info`, with the inputs "pixels", "tokens", "labels"
/// and "target". Keys, with their defaults; ranges are in the errors (docs/formats.md explains them):
///   encoders:   {NAME: {kind: vit, input: pixels, patch: 4, width: 64, layers: 2, heads: 4, ffn: 4 width}, ...}
///   llm:        {kind: qwen3, layers: 4, width: 64, heads: 4, kv_heads: heads, head_dim: width / heads, ffn: 3 width,
///                experts: 0, top_k: 2, balance_weight: 0.01, tied: true, rope_base: 10000}
///   generators: {NAME: {kind: mmdit, inputs: [llm], target: target, patch: 4, width: 64, layers: 4, heads: 4,
///                ffn: 4 width, weight: 1, prediction: velocity | sample, time_mean: 0, time_std: 1,
///                drop_context: 0, sample_steps: 30, guidance: 1}, ...}
///   frozen:     [PATTERN, ...] over parameter names, "vision.*" or "llm.layers.0.*"
/// The head and its loss are named "text", the balance loss of experts "balance"; a generator's loss has its name.
/// `source` names the file in errors. Throws Error at "SOURCE:model...".
Model model_from_config(const YAML::Node& model, const DatasetInfo& info, const std::string& source);

/// Tokens that one picture takes in the text: the patches of all encoders of "pixels" together. Throws as
/// model_from_config.
std::int64_t image_tokens(const YAML::Node& model, std::int64_t image_size, const std::string& source);

}  // namespace nestor::modules
