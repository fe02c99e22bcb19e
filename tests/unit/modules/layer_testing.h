#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nestor/modules/module.h>

namespace nestor::modules::testing {

/// A microbatch of samples with ids 1, 2, ... and these counts.
inline Microbatch microbatch_of(std::vector<std::map<std::string, std::int64_t, std::less<>>> counts) {
  Microbatch microbatch;
  for (auto& each : counts) {
    Sample sample;
    sample.id = static_cast<std::int64_t>(microbatch.samples.size()) + 1;
    sample.counts = std::move(each);
    microbatch.samples.push_back(std::move(sample));
  }
  return microbatch;
}

inline Tensor random_tensor(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, Seed(seed).generator(), torch::TensorOptions().dtype(torch::kFloat64));
}

/// The module in float64, its parameters moved away from their special first values (zeros and ones).
template <class M>
std::shared_ptr<M> shaken(M module, double size = 0.2) {
  auto made = std::make_shared<M>(std::move(module));
  made->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  std::uint64_t seed = 1000;
  for (auto& parameter : made->parameters()) parameter.add_(random_tensor(parameter.sizes(), ++seed) * size);
  return made;
}

inline double max_difference(const Tensor& a, const Tensor& b) {
  return (a - b).abs().max().item<double>();
}

/// Compares the gradient of a scalar function of `leaf` with central differences in three random directions, in
/// float64. `leaf` must require a gradient.
inline void expect_gradient(const std::string& name, Tensor leaf, const std::function<Tensor()>& function) {
  leaf.mutable_grad() = Tensor();
  function().backward();
  ASSERT_TRUE(leaf.grad().defined()) << name << " got no gradient";
  const Tensor gradient = leaf.grad().clone();
  torch::NoGradGuard no_grad;
  const double step = 1e-5;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Tensor direction = random_tensor(leaf.sizes(), 77 * seed);
    leaf.add_(direction, step);
    const double above = function().item<double>();
    leaf.add_(direction, -2 * step);
    const double below = function().item<double>();
    leaf.add_(direction, step);
    const double expected = (above - below) / (2 * step);
    const double got = (gradient * direction).sum().item<double>();
    EXPECT_NEAR(got, expected, 1e-6 * std::max(1.0, std::abs(expected))) << name << ", direction " << seed;
  }
}

/// Checks every parameter and every floating input that requires a gradient, through a fixed random projection of the
/// first output and the module's own losses.
inline void expect_gradients(Module& module, const Tensors& inputs, const Context& context) {
  Tensor weights;
  auto function = [&] {
    std::vector<LossTerm> losses;
    Context with_losses = context;
    with_losses.losses = &losses;
    auto output = module.forward(inputs, with_losses).at(0);
    if (!weights.defined()) weights = random_tensor(output.sizes(), 5);
    auto sum = (output * weights).sum();
    for (const auto& loss : losses) sum = sum + loss.sum * 0.37;
    return sum;
  };
  for (auto& [name, parameter] : module.named_parameters().pairs()) expect_gradient(name, parameter, function);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) {
      expect_gradient("input " + std::to_string(i), inputs[i], function);
    }
  }
}

}  // namespace nestor::modules::testing
