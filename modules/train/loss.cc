#include <nestor/modules/train/loss.h>

namespace nestor::modules {

Tensor cross_entropy_sum(const Tensor& logits, const Tensor& labels) {
  if (logits.dim() < 1 || logits.sizes().slice(0, static_cast<std::size_t>(logits.dim() - 1)) != labels.sizes())
    throw Error("token_cross_entropy", "logits and labels differ in their positions",
                "logits are [..., vocabulary], labels [...]");
  const auto vocabulary = logits.size(-1);
  Tensor flat = logits.reshape({-1, vocabulary});
  Tensor targets = labels.reshape({-1});
  // Positions without a label cost nothing: they are left out before the softmax over the vocabulary.
  Tensor chosen = (targets != ignored_label).nonzero().squeeze(1);
  if (chosen.size(0) == 0)
    return (flat.narrow(0, 0, 0).sum()).to(torch::promoteTypes(flat.scalar_type(), torch::kFloat32));
  if (chosen.size(0) != targets.size(0)) {
    flat = flat.index_select(0, chosen);
    targets = targets.index_select(0, chosen);
  }
  if (flat.scalar_type() != torch::kFloat64) flat = flat.to(torch::kFloat32);
  namespace F = torch::nn::functional;
  return F::nll_loss(torch::log_softmax(flat, 1), targets, F::NLLLossFuncOptions().reduction(torch::kSum));
}

Loss token_cross_entropy_of(std::string labels_input) {
  return {[](const Tensors& inputs, const Context&) {
            if (inputs.size() != 2)
              throw Error("token_cross_entropy", std::to_string(inputs.size()) + " inputs",
                          "it takes logits and labels");
            return cross_entropy_sum(inputs[0], inputs[1]);
          },
          count_of(std::move(labels_input))};
}

Loss mean_squared_error_of(std::string input) {
  return {[](const Tensors& inputs, const Context&) {
            if (inputs.size() != 2 || inputs[0].sizes() != inputs[1].sizes() || inputs[0].dim() < 1)
              throw Error("mean_squared_error", "prediction and target differ in shape", "both are [items, ...]");
            const auto item = inputs[0].numel() / std::max<std::int64_t>(inputs[0].size(0), 1);
            Tensor difference = inputs[0] - inputs[1];
            return difference.square().sum() / static_cast<double>(std::max<std::int64_t>(item, 1));
          },
          count_of(std::move(input))};
}

CountFunction count_of(std::string input) {
  return [input = std::move(input)](const Sample& sample) { return sample.count(input); };
}

CountFunction samples_with(std::string input) {
  return [input = std::move(input)](const Sample& sample) { return std::int64_t{sample.has(input)}; };
}

}  // namespace nestor::modules
