#include <cmath>

#include <nestor/modules/layers/basic.h>

namespace nestor::modules {

Tensor normal(const Seed& seed, std::string_view name, at::IntArrayRef shape, double std) {
  if (std == 0) return torch::zeros(shape);
  auto options = torch::TensorOptions().dtype(torch::kFloat32);
  return at::randn(shape, seed.child(name).generator(), options).mul_(std);
}

Linear::Linear(std::int64_t in, std::int64_t out, const Seed& seed, Bias bias, double std) {
  if (std < 0) std = 1.0 / std::sqrt(static_cast<double>(in));
  weight_ = register_parameter("weight", normal(seed, "weight", {out, in}, std));
  if (bias == Bias::yes) bias_ = register_parameter("bias", torch::zeros({out}));
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// With r = 1/√(mean(x²) + ε) and n = x r:  dx = r (g w - n mean(g w n)),  dw = Σ g n.
class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double epsilon) {
    Tensor wide = x.element_size() < 4 ? x.to(torch::kFloat32) : x;
    Tensor inverse = wide.square().mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
    context->save_for_backward({x, weight, inverse});
    return wide.mul(inverse).mul_(weight).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &inverse = saved[2];
    if (!gradients[0].defined()) return {Tensor(), Tensor(), Tensor()};
    Tensor g = gradients[0].to(inverse.scalar_type());
    Tensor n = x * inverse;
    Tensor gw = g * weight;
    Tensor mean = (gw * n).mean(-1, /*keepdim=*/true);
    Tensor dx, dw;
    if (context->needs_input_grad(1)) dw = (g * n).sum_to_size(weight.sizes()).to(weight.scalar_type());
    if (context->needs_input_grad(0)) dx = gw.addcmul_(n, mean, -1).mul_(inverse).to(x.scalar_type());
    return {dx, dw, Tensor()};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  return RmsNormFunction::apply(x, weight, epsilon);
}

}  // namespace nestor::modules
