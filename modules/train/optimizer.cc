#include <cmath>
#include <numbers>

#include <ATen/Parallel.h>

#include <nestor/modules/error.h>
#include <nestor/modules/train/adamw_kernel.h>
#include <nestor/modules/train/optimizer.h>

namespace nestor::modules {
namespace {

bool precise(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kFloat64;
}
bool plain_memory(const Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_contiguous() && precise(tensor);
}

template <class T>
void fused_update(Tensor& parameter, const Tensor& gradient, Tensor& exp_avg, Tensor& exp_avg_sq,
                  const AdamwFactors& factors) {
  constexpr std::int64_t kGrain = 32768;
  T* p = parameter.data_ptr<T>();
  const T* g = gradient.defined() ? gradient.data_ptr<T>() : nullptr;
  T* m = exp_avg.data_ptr<T>();
  T* v = exp_avg_sq.data_ptr<T>();
  at::parallel_for(0, parameter.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    adamw_kernel(p + begin, g ? g + begin : nullptr, m + begin, v + begin, static_cast<std::size_t>(end - begin),
                 factors);
  });
}

void update_by_operators(Tensor& parameter, const Tensor& gradient, Tensor& exp_avg, Tensor& exp_avg_sq,
                         const AdamwFactors& f) {
  exp_avg.mul_(f.beta1);
  exp_avg_sq.mul_(f.beta2);
  if (gradient.defined()) {
    Tensor scaled = gradient.mul(f.grad_scale);
    exp_avg.add_(scaled, 1 - f.beta1);
    exp_avg_sq.addcmul_(scaled, scaled, 1 - f.beta2);
  }
  parameter.mul_(f.keep).addcdiv_(exp_avg, exp_avg_sq.sqrt().mul_(f.correct2).add_(f.epsilon), -f.step_size);
}

}  // namespace

void validate(const OptimizerOptions& options) {
  auto check = [](bool good, const char* field, const char* hint) {
    if (!good) throw Error(std::string("optimizer.") + field, "out of range", hint);
  };
  check(options.kind == "adamw", "kind", "adamw is the one there is");
  check(std::isfinite(options.lr) && options.lr >= 0, "lr", "0 and up");
  check(options.beta1 >= 0 && options.beta1 < 1, "beta1", "0 to below 1");
  check(options.beta2 >= 0 && options.beta2 < 1, "beta2", "0 to below 1");
  check(std::isfinite(options.epsilon) && options.epsilon > 0, "epsilon", "above 0");
  check(std::isfinite(options.weight_decay) && options.weight_decay >= 0, "weight_decay", "0 and up");
  check(std::isfinite(options.clip) && options.clip >= 0, "clip", "0 (none) and up");
  check(options.warmup >= 0, "warmup", "0 steps and up");
  check(options.decay_steps >= 0, "decay_steps", "0 (constant) and up");
  check(options.final_lr >= 0 && options.final_lr <= 1, "final_lr", "a share of lr, 0 to 1");
}

double learning_rate(const OptimizerOptions& options, std::int64_t step) {
  if (step <= options.warmup) return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup);
  if (options.decay_steps <= options.warmup) return options.lr;
  const double progress = std::min(
      1.0, static_cast<double>(step - options.warmup) / static_cast<double>(options.decay_steps - options.warmup));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options.lr * (options.final_lr + (1 - options.final_lr) * cosine);
}

Optimizer::Optimizer(OptimizerOptions options, Parameters parameters)
    : options_(std::move(options)), parameters_(std::move(parameters)), states_(parameters_.size()) {
  validate(options_);
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i].second;
    if (!parameter.requires_grad()) continue;
    auto wide = parameter.options().requires_grad(false);
    if (!precise(parameter)) {
      wide = wide.dtype(torch::kFloat32);
      states_[i].master = parameter.detach().to(torch::kFloat32);
    }
    states_[i].exp_avg = torch::zeros(parameter.sizes(), wide);
    states_[i].exp_avg_sq = torch::zeros(parameter.sizes(), wide);
  }
}

double Optimizer::gradient_square_sum(const std::vector<bool>& counts) const {
  if (!counts.empty() && counts.size() != parameters_.size())
    throw Error("optimizer", "one flag per parameter is needed", "or none for all");
  torch::NoGradGuard no_grad;
  double total = 0;
  std::vector<Tensor> on_device;  // read back once: every read waits for the device
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& gradient = parameters_[i].second.grad();
    if (!gradient.defined() || (!counts.empty() && !counts[i])) continue;
    const auto size = static_cast<std::size_t>(gradient.numel());
    if (plain_memory(gradient)) {
      total += gradient.scalar_type() == torch::kFloat32 ? square_sum(gradient.data_ptr<float>(), size)
                                                         : square_sum(gradient.data_ptr<double>(), size);
    } else {
      on_device.push_back(gradient.to(torch::kFloat64).square().sum());
    }
  }
  if (!on_device.empty()) total += torch::stack(on_device).sum().item<double>();
  return total;
}

void Optimizer::update(std::int64_t step, double scale) {
  torch::NoGradGuard no_grad;
  const double lr = learning_rate(options_, step);
  AdamwFactors factors{};
  factors.beta1 = options_.beta1;
  factors.beta2 = options_.beta2;
  factors.step_size = lr / (1 - std::pow(options_.beta1, static_cast<double>(step)));
  factors.correct2 = 1 / std::sqrt(1 - std::pow(options_.beta2, static_cast<double>(step)));
  factors.epsilon = options_.epsilon;
  factors.grad_scale = scale;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor& parameter = parameters_[i].second;
    State& state = states_[i];
    if (!state.exp_avg.defined()) continue;
    // Norms and biases are not decayed: pulling them to zero has no use.
    factors.keep = parameter.dim() >= 2 ? 1 - lr * options_.weight_decay : 1;
    Tensor& target = state.master.defined() ? state.master : parameter;
    Tensor gradient = parameter.grad();
    if (gradient.defined()) gradient = gradient.to(target.scalar_type());
    if (plain_memory(target)) {
      if (gradient.defined()) gradient = gradient.contiguous();
      if (target.scalar_type() == torch::kFloat32)
        fused_update<float>(target, gradient, state.exp_avg, state.exp_avg_sq, factors);
      else
        fused_update<double>(target, gradient, state.exp_avg, state.exp_avg_sq, factors);
    } else {
      update_by_operators(target, gradient, state.exp_avg, state.exp_avg_sq, factors);
    }
    if (state.master.defined()) parameter.copy_(state.master);
  }
}

void Optimizer::zero_gradients() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
}

Optimizer::Parameters Optimizer::state() const {
  Parameters result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!states_[i].exp_avg.defined()) continue;
    result.emplace_back(parameters_[i].first + ".exp_avg", states_[i].exp_avg);
    result.emplace_back(parameters_[i].first + ".exp_avg_sq", states_[i].exp_avg_sq);
    if (states_[i].master.defined()) result.emplace_back(parameters_[i].first + ".master", states_[i].master);
  }
  return result;
}

}  // namespace nestor::modules
