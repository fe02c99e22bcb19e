#include <cmath>
#include <numeric>

#include <nestor/modules/llm/mixture_of_experts.h>

namespace nestor::modules {

namespace {

Tensor gated(const Tensor& gate_up) {
  auto halves = gate_up.chunk(2, -1);
  return torch::silu(halves[0]) * halves[1];
}

}  // namespace

SwiGlu::SwiGlu(std::int64_t width, std::int64_t ffn, const Seed& seed, double output_std)
    : gate_up_(register_module("gate_up", std::make_shared<Linear>(width, 2 * ffn, seed.child("gate_up")))),
      down_(register_module("down",
                            std::make_shared<Linear>(ffn, width, seed.child("down"), Linear::Bias::no, output_std))) {}

Tensor SwiGlu::forward(const Tensor& x) const {
  return down_->forward(gated(gate_up_->forward(x)));
}

Tensor balance_loss(const Tensor& probabilities, const Tensor& chosen, const Tensor& sequence, const Tensor& lengths) {
  const auto experts = probabilities.size(1), sequences = lengths.size(0);
  const auto options = probabilities.options().requires_grad(false);
  // Slots per (sequence, expert): whole numbers, so their order of addition does not matter.
  Tensor slot = (sequence.unsqueeze(1) * experts + chosen).reshape(-1);
  Tensor got = torch::zeros({sequences * experts}, options)
                   .index_add(0, slot, torch::ones({slot.size(0)}, options))
                   .view({sequences, experts});
  // Σ_e f_e p_e = Σ_tokens Σ_e f_e prob_e / length: f is looked up per token instead of adding up probabilities.
  Tensor share = got / (lengths * lengths * chosen.size(1)).unsqueeze(1);
  return (probabilities * share.index_select(0, sequence)).sum() * static_cast<double>(experts);
}

MixtureOfExperts::MixtureOfExperts(std::int64_t width, std::int64_t ffn, std::int64_t experts, std::int64_t top_k,
                                   const Seed& seed, double output_std)
    : experts_(experts), top_k_(top_k) {
  router_ = register_module("router", std::make_shared<Linear>(width, experts, seed.child("router")));
  const double in_std = 1.0 / std::sqrt(static_cast<double>(width));
  gate_up_ = register_parameter("gate_up", normal(seed, "gate_up", {experts, width, 2 * ffn}, in_std));
  down_ = register_parameter("down", normal(seed, "down", {experts, ffn, width}, output_std));
}

Tensor MixtureOfExperts::forward(const Tensor& x, const Context& context) const {
  const auto samples = x.size(0), length = x.size(1), width = x.size(2);
  // Where the tokens are, from the descriptors: the same on every lane.
  std::vector<std::int64_t> places, owners;
  std::vector<double> lengths;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto count = context.microbatch.samples[static_cast<std::size_t>(i)].count("tokens");
    if (count == 0) continue;
    for (std::int64_t j = 0; j < count; ++j) {
      places.push_back(i * length + j);
      owners.push_back(static_cast<std::int64_t>(lengths.size()));
    }
    lengths.push_back(static_cast<double>(count));
  }
  if (places.empty()) return torch::zeros_like(x);
  Tensor flat = x.reshape({samples * length, width});
  const bool padded = static_cast<std::int64_t>(places.size()) < samples * length;
  Tensor place = torch::tensor(places).to(x.device());
  Tensor tokens = padded ? flat.index_select(0, place) : flat;

  // Routing in float32 or better: two near experts must not be told apart by rounding.
  const auto type = x.element_size() < 4 ? torch::kFloat32 : x.scalar_type();
  Tensor probabilities = torch::softmax(router_->forward(tokens).to(type), -1);
  auto [weights, chosen] = probabilities.topk(top_k_, -1);
  weights = weights / weights.sum(-1, /*keepdim=*/true);
  context.add_loss("balance", balance_loss(probabilities, chosen, torch::tensor(owners).to(x.device()),
                                           torch::tensor(lengths).to(x.device(), type)));

  Tensor mixed = run_experts(tokens, chosen, weights.to(x.scalar_type()));
  if (padded) mixed = torch::zeros_like(flat).index_copy(0, place, mixed);
  return mixed.view({samples, length, width});
}

Tensor MixtureOfExperts::run_experts(const Tensor& tokens, const Tensor& chosen, const Tensor& weights) const {
  const auto count = tokens.size(0), width = tokens.size(1);
  // Slots sorted by expert. Every slot is read and written once, so no sum's order is left to chance.
  Tensor slots = chosen.reshape(-1);
  Tensor order = std::get<1>(slots.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
  Tensor sizes = torch::bincount(slots, {}, experts_).to(torch::kCPU);
  Tensor sorted =
      tokens.unsqueeze(1).expand({count, top_k_, width}).reshape({count * top_k_, width}).index_select(0, order);
  const auto gate_up = gate_up_.unbind(0), down = down_.unbind(0);
  Tensors outputs;
  std::int64_t first = 0;
  for (std::int64_t e = 0; e < experts_; ++e) {
    const auto size = sizes.data_ptr<std::int64_t>()[e];
    if (size == 0) continue;
    const auto i = static_cast<std::size_t>(e);
    outputs.push_back(torch::mm(gated(torch::mm(sorted.narrow(0, first, size), gate_up[i])), down[i]));
    first += size;
  }
  Tensor back = torch::empty_like(order).scatter_(0, order, torch::arange(order.size(0), order.options()));
  Tensor slot_outputs = torch::cat(outputs).index_select(0, back).view({count, top_k_, width});
  return (slot_outputs * weights.unsqueeze(-1)).sum(1);
}

}  // namespace nestor::modules
