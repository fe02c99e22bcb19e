#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nestor/modules/module.h>

// Rectified flow (Liu et al., arXiv:2209.03003; the form of Esser et al., arXiv:2403.03206): a straight path
// x(t) = (1 - t) data + t noise, t from 0 (data) to 1 (noise), along which the velocity is noise - data.
namespace nestor::modules {

/// What a network of a flow says.
enum class Prediction : std::uint8_t {
  velocity,  ///< noise - data
  sample     ///< the data, from which the velocity is (x(t) - data) / t (Li and He, arXiv:2511.13720)
};

struct FlowOptions {
  Prediction prediction = Prediction::velocity;
  double time_mean = 0.0, time_std = 1.0;  ///< t = sigmoid(N(mean, std²)); std 0: uniform on [0, 1]
  double least_time = 0.05;                ///< divisor at least this where the sample is predicted
  double drop_context = 0.0;               ///< share of samples trained without context, for guidance
};

/// What is drawn for the targets of a microbatch, from Context::random of each target's own sample alone.
struct FlowDraws {
  Tensor noise;               ///< as the targets
  Tensor time;                ///< [targets], float32 or float64
  std::vector<bool> dropped;  ///< context left out; never where Context::training is false
};
/// `owners`: for each target the index of its sample in the microbatch, in order. `shape`: of one target.
FlowDraws draw_flow(const std::vector<std::size_t>& owners, at::IntArrayRef shape, const FlowOptions& options,
                    const Context& context, const torch::TensorOptions& tensor_options);

/// Sum over targets of the mean over a target's elements of (velocity - (noise - data))²; `output` is what the network
/// said at x(t). Tensors [targets, ...] alike, time [targets].
Tensor flow_loss(const Tensor& output, const Tensor& data, const FlowDraws& draws, const FlowOptions& options);
/// x(t) for data and draws.
Tensor flow_point(const Tensor& data, const FlowDraws& draws);

/// Integrates dx/dt = velocity(x, t) from t = 1 to 0 in `steps` equal Euler steps. Exact for straight paths.
Tensor euler_sample(Tensor noise, std::int64_t steps,
                    const std::function<Tensor(const Tensor& x, double time)>& velocity);

}  // namespace nestor::modules
