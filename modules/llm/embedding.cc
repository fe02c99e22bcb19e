#include <cmath>

#include <nestor/modules/error.h>
#include <nestor/modules/llm/embedding.h>

namespace nestor::modules {

// Drawn at 1/√width, not at one: a tied head reads the same rows.
TokenEmbedding::TokenEmbedding(const EmbeddingOptions& options, const Seed& seed) : options_(options) {
  weight_ = register_parameter("weight", normal(seed, "weight", {options.vocabulary, options.width},
                                                1.0 / std::sqrt(static_cast<double>(options.width))));
}

Tensors TokenEmbedding::forward(const Tensors& inputs, const Context& context) {
  const Tensor& tokens = inputs.at(0);
  Tensor embedded = torch::embedding(weight_, tokens);
  std::vector<bool> done(options_.splices.size(), false);
  for (std::size_t i = 0; i < options_.splices.size() && i + 1 < inputs.size(); ++i) {
    if (done[i]) continue;
    const Splice& where = options_.splices[i];
    Tensors seen;
    for (std::size_t j = i; j < options_.splices.size() && j + 1 < inputs.size(); ++j) {
      if (options_.splices[j].token != where.token || options_.splices[j].input != where.input) continue;
      done[j] = true;
      if (inputs[j + 1].defined()) seen.push_back(inputs[j + 1]);
    }
    if (seen.empty()) continue;
    Tensor rows = seen.size() == 1 ? seen[0] : torch::cat(seen, 1);
    embedded = splice(embedded, tokens, where, rows.reshape({-1, options_.width}), context);
  }
  return {embedded};
}

Tensor TokenEmbedding::splice(const Tensor& embedded, const Tensor& tokens, const Splice& where, const Tensor& rows,
                              const Context& context) const {
  Tensor mask = tokens.eq(where.token);
  const auto& samples = context.microbatch.samples;
  std::vector<std::int64_t> having;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].has(where.input)) having.push_back(static_cast<std::int64_t>(i));
  }
  if (having.size() < samples.size()) {
    Tensor has = torch::zeros({static_cast<std::int64_t>(samples.size()), 1}, torch::kBool);
    for (auto i : having) has[i] = true;
    mask = mask.logical_and(has.to(mask.device()));
  }
  const auto places = mask.sum().item<std::int64_t>();
  if (places != rows.size(0)) {
    throw Error("module " + std::string(context.module),
                "the text has " + std::to_string(places) + " image tokens, the encoders gave " +
                    std::to_string(rows.size(0)) + " embeddings",
                "a sample needs one image token per patch of its images");
  }
  return embedded.masked_scatter(mask.unsqueeze(-1), rows);
}

double TokenEmbedding::forward_flops(const Microbatch& microbatch) const {
  return static_cast<double>(static_cast<std::int64_t>(microbatch.samples.size()) * microbatch.max_count("tokens") *
                             options_.width);
}

}  // namespace nestor::modules
