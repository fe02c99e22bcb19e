#include <algorithm>
#include <cmath>

#include <nestor/scheduler/model_costs.h>
#include <nestor/scheduler/partition.h>

namespace nestor::scheduler {
namespace {

constexpr double kBackward = 2;  ///< of a forward's operations: gradients of inputs and of weights

double attention_width(const TransformerModel& l) {
  return double(l.heads) * l.head_dim;
}

/// Weights of one layer that every token meets: projections, feed-forwards it is routed to, router.
double active_parameters(const TransformerModel& l) {
  const double projections =
      double(l.width) * (2 * attention_width(l) + 2.0 * l.kv_heads * l.head_dim);  // query and output; key and value
  const double ffn = (l.gated ? 3.0 : 2.0) * l.width * l.ffn;
  return projections + ffn * l.top_k + (l.experts > 1 ? double(l.width) * l.experts : 0);
}

double layer_parameters(const TransformerModel& l) {
  const double ffn = (l.gated ? 3.0 : 2.0) * l.width * l.ffn;
  return active_parameters(l) + ffn * (l.experts - l.top_k) + 2.0 * l.width;
}

/// Scores and weighted values: two products of all tokens with all (half of them under a causal mask).
double attention_flops(const TransformerModel& l, double tokens, bool causal) {
  return (causal ? 2.0 : 4.0) * tokens * tokens * attention_width(l);
}

/// Elements that a layer keeps of a token for its backward, without the attention matrix (recomputed by fused
/// attention): inputs of both norms and of what follows them, query, key, value, attention's output, feed-forward's
/// inner values; with experts also the copies that are sent to them and come back.
double kept_elements(const TransformerModel& l) {
  return 4.0 * l.width + 2 * attention_width(l) + 2.0 * l.kv_heads * l.head_dim +
         (l.gated ? 3.0 : 2.0) * l.ffn * l.top_k + (l.experts > 1 ? 2.0 * l.top_k * l.width : 0);
}

double pool_parameters(const PoolModel& pool) {
  const double modulation = pool.modulated ? 6.0 * pool.layer.width * pool.layer.width : 0;
  return pool.layer.layers * pool.streams * (layer_parameters(pool.layer) + modulation);
}

/// Floating-point operations of one forward of one sample.
double pool_flops(const PoolModel& pool) {
  const TransformerModel& l = pool.layer;
  const double joined = pool.streams > 1 ? double(pool.tokens + pool.llm_tokens) : double(pool.tokens);
  double layer = 2 * active_parameters(l) * joined + attention_flops(l, joined, false);
  if (pool.modulated) layer += 2 * 6.0 * l.width * l.width * pool.streams;
  return pool.sequences * l.layers * layer;
}

double pool_elements(const PoolModel& pool) {
  const double joined = pool.streams > 1 ? double(pool.tokens + pool.llm_tokens) : double(pool.tokens);
  return pool.sequences * pool.layer.layers * joined * kept_elements(pool.layer);
}

std::int64_t whole(double bytes) {
  return static_cast<std::int64_t>(std::llround(std::min(bytes, 0x1p60)));  // the workload refuses so much
}

/// Turns a model and a shape into a workload, step by step.
class Builder {
 public:
  Builder(const ModelDescription& model, const Shape& shape)
      : m_(model),
        shape_(shape),
        rate_(model.flops * model.efficiency * static_cast<double>(model.lane_devices)),
        next_own_(shape.stages) {}

  Workload build() {
    w_ = make_workload(shape_.stages, shape_.chunks, shape_.microbatches, 0, 0);
    w_.transfer_latency = m_.latency;
    w_.transfer_bytes_per_second = m_.bytes_per_second;
    w_.memory_bytes_per_lane = whole(m_.memory_bytes * static_cast<double>(m_.lane_devices));
    llm();
    for (std::size_t p = 0; p < m_.pools.size(); ++p) pool(p);
    w_.resident_bytes.resize(static_cast<std::size_t>(w_.lane_count()), 0);
    for (std::size_t lane = 0; lane < resident_.size(); ++lane) w_.resident_bytes[lane] = whole(resident_[lane]);
    return std::move(w_);
  }

 private:
  double state_bytes() const { return m_.parameter_bytes + m_.optimizer_bytes / m_.optimizer_shards; }

  void reside(LaneId lane, double bytes) {
    if (resident_.size() <= lane.index()) resident_.resize(lane.index() + 1, 0);
    resident_[lane.index()] += bytes;
  }

  void llm() {
    const TransformerModel& l = m_.llm.layer;
    const double tokens = static_cast<double>(m_.samples * m_.sequence);
    const double layer =
        (2 * active_parameters(l) * tokens +
         static_cast<double>(m_.samples) * attention_flops(l, static_cast<double>(m_.sequence), true)) /
        rate_;
    const double table = double(l.width) * m_.llm.vocabulary;
    const double head = 2 * table * tokens / rate_;
    const std::int32_t stages = w_.model_stages();
    if (stages > l.layers)
      throw Error("stages",
                  std::to_string(stages) + " model stages are more than " + std::to_string(l.layers) + " layers",
                  "fewer stages or chunks");
    const std::vector<double> costs(static_cast<std::size_t>(l.layers), layer);
    const auto cut = partition_layers(costs, stages, 0, head);
    std::int32_t most = 0;
    for (std::int32_t s = 0; s < stages; ++s) {
      const std::int32_t layers = cut[s + 1] - cut[s];
      most = std::max(most, layers);
      w_.llm.forward[s] = layer * layers + (s + 1 == stages ? head : 0);
      w_.llm.backward[s] = kBackward * w_.llm.forward[s];
      reside(w_.llm.lanes[s], layers * layer_parameters(l) * state_bytes());
    }
    reside(w_.llm.lanes.front(), table * state_bytes());
    if (!m_.llm.tied || w_.llm.lanes.front() != w_.llm.lanes.back()) reside(w_.llm.lanes.back(), table * state_bytes());
    reside(w_.llm.lanes.back(), tokens * m_.llm.vocabulary * 4);  // logits and their gradient in place, float32
    w_.llm.trainable = m_.llm.trainable;
    w_.llm.recompute = shape_.recompute;
    w_.llm.message_bytes = whole(tokens * l.width * m_.element_bytes);
    w_.llm.stash_bytes = whole(most * tokens * kept_elements(l) * m_.element_bytes);
  }

  void pool(std::size_t index) {
    const PoolModel& model = m_.pools[index];
    const double samples = static_cast<double>(m_.samples);
    const double forward = samples * pool_flops(model) / rate_;
    PoolWorkload pool = make_pool(w_, model.name, model.kind, forward, kBackward * forward);
    const std::int32_t size =
        index < shape_.pool_sizes.size() && shape_.pool_sizes[index] > 0 ? shape_.pool_sizes[index] : shape_.stages;
    pool.lanes.clear();
    for (std::int32_t i = 0; i < size; ++i) {
      pool.lanes.emplace_back(shape_.own_devices.value_or(false) ? next_own_++ : i % shape_.stages);
    }
    if (shape_.coupled) {
      pool.lanes.assign(1, model.kind == PoolKind::encoder ? w_.llm.lanes.front() : w_.llm.lanes.back());
    }
    for (std::int32_t m = 0; m < w_.microbatches; ++m) {
      pool.owner[m] = m % static_cast<std::int32_t>(pool.lanes.size());
    }
    std::vector<LaneId> lanes = pool.lanes;  // members on one lane share its parameters
    std::sort(lanes.begin(), lanes.end());
    lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
    const double state = model.trainable ? state_bytes() : m_.element_bytes;
    for (const LaneId lane : lanes) reside(lane, pool_parameters(model) * state);
    pool.trainable = model.trainable;
    pool.recompute = shape_.recompute;
    pool.message_bytes = whole(samples * static_cast<double>(model.llm_tokens) * m_.llm.layer.width * m_.element_bytes);
    pool.stash_bytes = whole(samples * pool_elements(model) * m_.element_bytes);
    w_.pools.push_back(std::move(pool));
  }

  const ModelDescription& m_;
  const Shape& shape_;
  const double rate_;
  Workload w_;
  std::vector<double> resident_;
  std::int32_t next_own_;  ///< the next lane that is no stage's
};

}  // namespace

std::int64_t parameters(const ModelDescription& model, ModuleId module) {
  if (module != kLlm) return whole(pool_parameters(model.pools[module.index() - 1]));
  const TransformerModel& l = model.llm.layer;
  const double table = double(l.width) * model.llm.vocabulary;
  return whole(l.layers * layer_parameters(l) + table * (model.llm.tied ? 1 : 2) + l.width);
}

Workload model_workload(const ModelDescription& model, const Shape& shape) {
  Workload workload = Builder(model, shape).build();
  validate(workload, "model");
  return workload;
}

}  // namespace nestor::scheduler
