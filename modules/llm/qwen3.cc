#include <cmath>

#include <nestor/modules/llm/qwen3.h>

namespace nestor::modules {

namespace {

/// Layers that write to the residual stream start smaller, the more of them there are (Radford et al., GPT-2).
double residual_std(const Qwen3Options& options, std::int64_t in) {
  return 1.0 / std::sqrt(static_cast<double>(in * 2 * std::max<std::int64_t>(options.layers, 1)));
}

double padded_tokens(const Microbatch& microbatch) {
  return static_cast<double>(microbatch.samples.size()) * static_cast<double>(microbatch.max_count("tokens"));
}

}  // namespace

Qwen3Attention::Qwen3Attention(const Qwen3Options& options, const Seed& seed, double output_std)
    : heads_(options.heads),
      kv_heads_(options.kv_heads),
      head_dim_(options.head_dim),
      rotary_(options.head_dim, options.rope_base) {
  qkv_ = register_module(
      "qkv", std::make_shared<Linear>(options.width, (heads_ + 2 * kv_heads_) * head_dim_, seed.child("qkv")));
  output_ = register_module("output", std::make_shared<Linear>(heads_ * head_dim_, options.width, seed.child("output"),
                                                               Linear::Bias::no, output_std));
  q_norm_ = register_parameter("q_norm", torch::ones({head_dim_}));
  k_norm_ = register_parameter("k_norm", torch::ones({head_dim_}));
}

Tensor Qwen3Attention::forward(const Tensor& x) {
  auto qkv = qkv_->forward(x).view({x.size(0), x.size(1), heads_ + 2 * kv_heads_, head_dim_});
  auto parts = qkv.split_with_sizes({heads_ + kv_heads_, kv_heads_}, 2);
  // Queries and keys pass norm and rotation as one tensor.
  auto weight = torch::cat({q_norm_.expand({heads_, head_dim_}), k_norm_.expand({kv_heads_, head_dim_})});
  auto qk = rotary_.apply(rms_norm(parts[0], weight)).split_with_sizes({heads_, kv_heads_}, 2);
  return output_->forward(attention(qk[0], qk[1], parts[1], mask_.get(x.size(1), x.options())));
}

Qwen3Layer::Qwen3Layer(const Qwen3Options& options, const Seed& seed)
    : options_(options),
      norm1_(register_module("norm1", std::make_shared<RmsNorm>(options.width))),
      norm2_(register_module("norm2", std::make_shared<RmsNorm>(options.width))) {
  attention_ = register_module(
      "attention", std::make_shared<Qwen3Attention>(options, seed.child("attention"),
                                                    residual_std(options, options.heads * options.head_dim)));
  const double down_std = residual_std(options, options.ffn);
  if (options.experts == 0) {
    mlp_ = register_module("mlp", std::make_shared<SwiGlu>(options.width, options.ffn, seed.child("mlp"), down_std));
  } else {
    experts_ =
        register_module("experts", std::make_shared<MixtureOfExperts>(options.width, options.ffn, options.experts,
                                                                      options.top_k, seed.child("experts"), down_std));
  }
}

Tensors Qwen3Layer::forward(const Tensors& inputs, const Context& context) {
  const Tensor& x = inputs.at(0);
  auto middle = x + attention_->forward(norm1_->forward(x));
  auto normed = norm2_->forward(middle);
  return {middle + (mlp_ ? mlp_->forward(normed) : experts_->forward(normed, context))};
}

double Qwen3Layer::forward_flops(const Microbatch& microbatch) const {
  const auto width = static_cast<double>(options_.width), ffn = static_cast<double>(options_.ffn);
  const auto q = static_cast<double>(options_.heads * options_.head_dim);
  const auto kv = static_cast<double>(options_.kv_heads * options_.head_dim);
  const auto samples = static_cast<double>(microbatch.samples.size());
  const auto length = static_cast<double>(microbatch.max_count("tokens"));
  const double projections = padded_tokens(microbatch) * 2 * width * (2 * q + 2 * kv);
  const double scores = attention_flops(samples, length, length, q);
  const double swiglu = 2 * 3 * width * ffn;
  if (options_.experts == 0) return projections + scores + padded_tokens(microbatch) * swiglu;
  const auto tokens = static_cast<double>(microbatch.count("tokens"));
  return projections + scores +
         tokens * (static_cast<double>(options_.top_k) * swiglu + 2 * width * static_cast<double>(options_.experts));
}

LanguageHead::LanguageHead(const Qwen3Options& options, const Seed& seed)
    : options_(options), norm_(register_module("norm", std::make_shared<RmsNorm>(options.width))) {
  weight_ = register_parameter("weight", normal(seed, "weight", {options.vocabulary, options.width},
                                                1.0 / std::sqrt(static_cast<double>(options.width))));
}

Tensors LanguageHead::forward(const Tensors& inputs, const Context&) {
  return {torch::linear(norm_->forward(inputs.at(0)), weight_)};
}

double LanguageHead::forward_flops(const Microbatch& microbatch) const {
  return padded_tokens(microbatch) * 2 * static_cast<double>(options_.width * options_.vocabulary);
}

std::vector<ModuleFactory> decoder_layers(const Qwen3Options& options) {
  std::vector<ModuleFactory> factories;
  EmbeddingOptions embedding{options.vocabulary, options.width, options.splices};
  factories.push_back([embedding](Seed seed) { return std::make_shared<TokenEmbedding>(embedding, seed); });
  for (std::int64_t i = 0; i < options.layers; ++i) {
    factories.push_back([options](Seed seed) { return std::make_shared<Qwen3Layer>(options, seed); });
  }
  return factories;
}

}  // namespace nestor::modules
