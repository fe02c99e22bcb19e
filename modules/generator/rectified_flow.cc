#include <numeric>

#include <nestor/modules/generator/rectified_flow.h>

namespace nestor::modules {

namespace {

/// [targets] to [targets, 1, ...] in x's type, to multiply x by.
Tensor beside(const Tensor& per_target, const Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[0] = x.size(0);
  return per_target.view(shape).to(x.scalar_type());
}

}  // namespace

FlowDraws draw_flow(const std::vector<std::size_t>& owners, at::IntArrayRef shape, const FlowOptions& options,
                    const Context& context, const torch::TensorOptions& tensor_options) {
  FlowDraws draws;
  const auto elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const auto on_cpu = torch::TensorOptions().dtype(torch::kFloat32);
  Tensors rows;
  for (std::size_t i = 0; i < owners.size();) {
    std::int64_t images = 0;
    const auto owner = owners[i];
    for (; i < owners.size() && owners[i] == owner; ++i) ++images;
    auto generator = context.random(context.microbatch.samples.at(owner), "flow");
    // Normal: noise and the time's logit. Uniform: the time where it is uniform, and whether context is dropped.
    rows.push_back(torch::cat(
        {at::randn({images, elements + 1}, generator, on_cpu), at::rand({images, 2}, generator, on_cpu)}, 1));
  }
  Tensor drawn = torch::cat(rows);
  Tensor time = options.time_std > 0 ? torch::sigmoid(drawn.select(1, elements) * options.time_std + options.time_mean)
                                     : drawn.select(1, elements + 1);
  const Tensor chance = drawn.select(1, elements + 2).contiguous();
  for (std::int64_t i = 0; i < chance.size(0); ++i) {
    draws.dropped.push_back(context.training && chance.data_ptr<float>()[i] < options.drop_context);
  }
  std::vector<std::int64_t> all{static_cast<std::int64_t>(owners.size())};
  all.insert(all.end(), shape.begin(), shape.end());
  draws.noise = drawn.narrow(1, 0, elements).reshape(all).to(tensor_options);
  // Times stay at least float32: their features turn fast.
  draws.time = time.to(tensor_options.device());
  if (tensor_options.dtype() == torch::kFloat64) draws.time = draws.time.to(torch::kFloat64);
  return draws;
}

Tensor flow_point(const Tensor& data, const FlowDraws& draws) {
  return torch::lerp(data, draws.noise, beside(draws.time, data));
}

Tensor flow_loss(const Tensor& output, const Tensor& data, const FlowDraws& draws, const FlowOptions& options) {
  Tensor difference;
  if (options.prediction == Prediction::velocity) {
    difference = output - (draws.noise - data);
  } else {
    difference = (output - data) / beside(draws.time, data).clamp_min(options.least_time);
  }
  return difference.square().sum() / static_cast<double>(data[0].numel());
}

Tensor euler_sample(Tensor noise, std::int64_t steps,
                    const std::function<Tensor(const Tensor& x, double time)>& velocity) {
  const auto count = static_cast<double>(steps);
  for (std::int64_t i = 0; i < steps; ++i) {
    const double time = 1.0 - static_cast<double>(i) / count;
    noise = noise - velocity(noise, time) / count;
  }
  return noise;
}

}  // namespace nestor::modules
