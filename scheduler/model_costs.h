#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nestor/scheduler/shape.h>

namespace nestor::scheduler {

/// Layers of one kind. What a number means to a cost stands in docs/costs.md, with sources.
struct TransformerModel {
  std::int32_t layers = 0;
  std::int32_t width = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;  ///< grouped-query attention; as heads where there is none
  std::int32_t head_dim = 0;
  std::int32_t ffn = 0;      ///< of one expert
  std::int32_t experts = 1;  ///< 1: dense
  std::int32_t top_k = 1;
  bool gated = false;  ///< three matrices a feed-forward (SwiGLU) in place of two
};

struct LlmModel {
  TransformerModel layer;
  std::int32_t vocabulary = 0;
  bool tied = false;  ///< head and embedding are one matrix
  bool trainable = true;
};

/// A vision transformer or a diffusion transformer.
struct PoolModel {
  std::string name;
  PoolKind kind = PoolKind::encoder;
  TransformerModel layer;
  std::int64_t sequences = 1;   ///< of a sample: an encoder's images
  std::int64_t tokens = 0;      ///< of one sequence, own
  std::int64_t llm_tokens = 0;  ///< of a sample that pass between it and the LLM
  std::int32_t streams = 1;     ///< 2: the LLM's tokens have weights of their own and join the attention (MMDiT)
  bool modulated = false;       ///< adaptive layer norm, six vectors a layer and stream (DiT)
  bool trainable = true;
};

/// nestor.model/1, one: a model and the devices it is to run on.
struct ModelDescription {
  LlmModel llm;
  std::vector<PoolModel> pools;       ///< encoders, then generators
  std::int64_t sequence = 0;          ///< LLM tokens of a sample, images' included
  std::int64_t samples = 1;           ///< of a microbatch
  std::int64_t lane_devices = 1;      ///< devices that share a lane's work, parameters and activations evenly
  double flops = 0;                   ///< of a device, at its peak, per second
  double efficiency = 0.4;            ///< of that, what matrix products reach
  double memory_bytes = 0;            ///< of a device
  double bytes_per_second = 0;        ///< between two lanes; 0: free
  double latency = 0;                 ///< seconds
  std::int32_t element_bytes = 2;     ///< of an activation
  double parameter_bytes = 6;         ///< of a parameter: weight and gradient
  double optimizer_bytes = 12;        ///< of a parameter's optimizer state, before sharding
  std::int32_t optimizer_shards = 1;  ///< data-parallel replicas that share that state
};

/// Throws Error with source:line on anything malformed.
ModelDescription read_model(std::string_view text, std::string_view source);
/// Does the text say that it is nestor.model/1?
bool is_model(std::string_view text, std::string_view source);

/// Parameters of one module: the whole LLM, embedding and head included, or one member of a pool.
std::int64_t parameters(const ModelDescription& model, ModuleId module);

/// The model under a shape, in seconds and bytes: layers cut by cost (partition.h, head counted), stash and message
/// bytes, parameters, gradients and optimizer state of every lane, the memory cap. Throws Error where there are more
/// stages than layers.
Workload model_workload(const ModelDescription& model, const Shape& shape);

}  // namespace nestor::scheduler
