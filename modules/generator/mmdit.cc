#include <cmath>
#include <limits>

#include <nestor/modules/generator/mmdit.h>

namespace nestor::modules {

using enum Linear::Bias;

namespace {

constexpr std::int64_t kTimeWaves = 64;

/// Sine and cosine features of t in [0, 1]: [n] → [n, 2 kTimeWaves] in t's type, frequencies as in Vaswani et al. for
/// 1000 t.
Tensor time_features(const Tensor& time) {
  auto frequency = torch::exp(torch::arange(kTimeWaves, time.options().requires_grad(false)) *
                              (-std::log(1e4) / static_cast<double>(kTimeWaves)));
  auto angle = torch::outer(time * 1000.0, frequency);
  return torch::cat({angle.sin(), angle.cos()}, 1);
}

Tensor modulate(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  return torch::addcmul(shift, torch::layer_norm(x, {x.size(-1)}, {}, {}, 1e-6), scale + 1.0);
}

}  // namespace

MmditStream::MmditStream(const MmditOptions& options, const Seed& seed, bool ends)
    : heads_(options.heads), ends_(ends) {
  const auto width = options.width;
  modulation_ = register_module(
      "modulation", std::make_shared<Linear>(width, (ends ? 2 : 6) * width, seed.child("modulation"), yes, 0.0));
  qkv_ = register_module("qkv", std::make_shared<Linear>(width, 3 * width, seed.child("qkv"), yes));
  qk_norm_ = register_parameter("qk_norm", torch::ones({2, 1, width / heads_}));
  if (ends) return;
  output_ = register_module("output", std::make_shared<Linear>(width, width, seed.child("output"), yes));
  fc1_ = register_module("fc1", std::make_shared<Linear>(width, options.ffn, seed.child("fc1"), yes));
  fc2_ = register_module("fc2", std::make_shared<Linear>(options.ffn, width, seed.child("fc2"), yes));
}

MmditStream::Projected MmditStream::project(const Tensor& x, const Tensor& condition) const {
  auto modulation = modulation_->forward(condition).unsqueeze(1).chunk(ends_ ? 2 : 6, -1);
  auto qkv = qkv_->forward(modulate(x, modulation[0], modulation[1])).view({x.size(0), x.size(1), 3, heads_, -1});
  auto parts = qkv.split_with_sizes({2, 1}, 2);
  return {rms_norm(parts[0], qk_norm_), parts[1].squeeze(2), std::move(modulation)};
}

Tensor MmditStream::finish(const Tensor& x, const Tensor& attended, const Tensors& modulation) const {
  auto middle = torch::addcmul(x, output_->forward(attended), modulation[2]);
  auto hidden = torch::gelu(fc1_->forward(modulate(middle, modulation[3], modulation[4])));
  return torch::addcmul(middle, fc2_->forward(hidden), modulation[5]);
}

struct DiffusionTransformer::Told {
  Tensor context;  // [targets, 1 + length, width]
  Tensor pooled;   // [targets, width]
  Tensor hidden;   // added to scores: [targets, 1, 1 + length], or undefined where nothing is hidden
};

DiffusionTransformer::DiffusionTransformer(const MmditOptions& options, const Seed& seed) : options_(options) {
  const auto width = options.width, pixels = options.channels * options.patch * options.patch;
  auto contexts = std::make_shared<torch::nn::Module>();
  for (std::size_t i = 0; i < options.contexts.size(); ++i) {
    auto child = seed.child("context").child(static_cast<std::int64_t>(i));
    context_norms_.push_back(
        contexts->register_module("norm" + std::to_string(i), std::make_shared<RmsNorm>(options.contexts[i].width)));
    context_projections_.push_back(contexts->register_module(
        "projection" + std::to_string(i), std::make_shared<Linear>(options.contexts[i].width, width, child, yes)));
  }
  register_module("context", contexts);
  nothing_ = register_parameter("nothing", normal(seed, "nothing", {1, 1, width}, 1.0));
  patch_ = register_module("patch", std::make_shared<Linear>(pixels, width, seed.child("patch"), yes));
  time1_ = register_module("time1", std::make_shared<Linear>(2 * kTimeWaves, width, seed.child("time1"), yes));
  time2_ = register_module("time2", std::make_shared<Linear>(width, width, seed.child("time2"), yes));
  pooled_ = register_module("pooled", std::make_shared<Linear>(width, width, seed.child("pooled"), yes));
  auto blocks = std::make_shared<torch::nn::Module>();
  for (std::int64_t i = 0; i < options.layers; ++i) {
    auto child = seed.child("blocks").child(i);
    auto block = std::make_shared<torch::nn::Module>();
    const bool last = i + 1 == options.layers;
    blocks_.emplace_back(std::make_shared<MmditStream>(options, child.child("context"), last),
                         std::make_shared<MmditStream>(options, child.child("image"), false));
    block->register_module("context", blocks_.back().first);
    block->register_module("image", blocks_.back().second);
    blocks->register_module(std::to_string(i), block);
  }
  register_module("blocks", blocks);
  final_modulation_ = register_module(
      "final_modulation", std::make_shared<Linear>(width, 2 * width, seed.child("final_modulation"), yes, 0.0));
  final_ = register_module("final", std::make_shared<Linear>(width, pixels, seed.child("final"), yes, 0.0));
}

DiffusionTransformer::Told DiffusionTransformer::gather(const Tensors& inputs, const std::vector<std::size_t>& owners,
                                                        const Context& context, const std::vector<bool>& dropped) {
  const auto& samples = context.microbatch.samples;
  const auto targets = static_cast<std::int64_t>(owners.size());
  Told told;
  Tensors parts{nothing_.expand({targets, 1, options_.width})};
  Tensors real{torch::zeros({targets, 1})};  // 1 where a context row is real, the learnt token apart
  for (std::size_t i = 0; i < options_.contexts.size(); ++i) {
    if (!inputs.at(i).defined()) continue;
    const auto& source = options_.contexts[i];
    const bool images = source.kind == ContextSource::Kind::images;
    const auto per_unit = inputs[i].size(1);
    // First row and number of rows of each sample in the flattened source.
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    std::int64_t next = 0;
    for (const auto& sample : samples) {
      const auto count = sample.count(source.input);
      rows.emplace_back(next, images ? count * per_unit : count);
      next += images ? count * per_unit : per_unit;
    }
    std::int64_t length = 0;
    for (auto owner : owners) length = std::max(length, rows[owner].second);
    if (length == 0) continue;
    Tensor index = torch::zeros({targets, length}, torch::kInt64), is_real = torch::zeros({targets, length});
    for (std::int64_t t = 0; t < targets; ++t) {
      auto [first, count] = rows[owners[static_cast<std::size_t>(t)]];
      if (count == 0) continue;
      index[t].narrow(0, 0, count).copy_(torch::arange(first, first + count));
      if (!dropped[static_cast<std::size_t>(t)]) is_real[t].narrow(0, 0, count).fill_(1);
    }
    Tensor flat = inputs[i].reshape({-1, inputs[i].size(2)});
    Tensor taken = flat.index_select(0, index.view(-1).to(flat.device())).view({targets, length, flat.size(1)});
    parts.push_back(context_projections_[i]->forward(context_norms_[i]->forward(taken)));
    real.push_back(is_real);
  }
  Tensor is_real = torch::cat(real, 1);
  told.context = torch::cat(parts, 1);
  Tensor shares = is_real / is_real.sum(1, /*keepdim=*/true).clamp_min(1);
  told.pooled =
      torch::bmm(shares.unsqueeze(1).to(told.context.options().requires_grad(false)), told.context).squeeze(1);
  is_real.select(1, 0).fill_(1);
  if (!is_real.all().item<bool>()) {
    told.hidden = torch::zeros_like(is_real)
                      .masked_fill(is_real.eq(0), -std::numeric_limits<float>::infinity())
                      .unsqueeze(1)
                      .to(told.context.options().requires_grad(false));
  }
  return told;
}

Tensor DiffusionTransformer::denoise(const Tensor& x, const Tensor& time, const Told& told) {
  const auto rows = (x.size(2) + options_.patch - 1) / options_.patch;
  const auto columns = (x.size(3) + options_.patch - 1) / options_.patch;
  auto image = patch_->forward(to_patches(x, options_.patch));
  image = image + positions_.get(rows, columns, options_.width, image.options());
  auto context = told.context;
  Tensor mask;
  if (told.hidden.defined()) {
    mask = torch::cat({told.hidden, torch::zeros({x.size(0), 1, image.size(1)}, told.hidden.options())}, -1);
  }
  auto condition =
      torch::silu(time2_->forward(torch::silu(time1_->forward(time_features(time).to(image.scalar_type())))) +
                  pooled_->forward(told.pooled));
  const auto length = context.size(1);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    auto& [context_stream, image_stream] = blocks_[i];
    auto from_context = context_stream->project(context, condition);
    auto from_image = image_stream->project(image, condition);
    auto qk = torch::cat({from_context.query_key, from_image.query_key}, 1).unbind(2);
    auto attended = attention(qk[0], qk[1], torch::cat({from_context.value, from_image.value}, 1), mask)
                        .split_with_sizes({length, image.size(1)}, 1);
    if (i + 1 < blocks_.size()) context = context_stream->finish(context, attended[0], from_context.modulation);
    image = image_stream->finish(image, attended[1], from_image.modulation);
  }
  auto modulation = final_modulation_->forward(condition).unsqueeze(1).chunk(2, -1);
  auto patches = final_->forward(modulate(image, modulation[0], modulation[1]));
  return from_patches(patches, options_.patch, options_.channels, x.size(2), x.size(3));
}

Tensors DiffusionTransformer::forward(const Tensors& inputs, const Context& context) {
  const auto& samples = context.microbatch.samples;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    owners.insert(owners.end(), static_cast<std::size_t>(samples[i].count(options_.target)), i);
  }
  if (context.sampling) return {sample(inputs, owners, context)};
  const Tensor& data = inputs.at(options_.contexts.size());
  auto draws = draw_flow(owners, data.sizes().slice(1), options_.flow, context, data.options());
  auto told = gather(inputs, owners, context, draws.dropped);
  auto output = denoise(flow_point(data, draws), draws.time, told);
  return {flow_loss(output, data, draws, options_.flow)};
}

Tensor DiffusionTransformer::sample(const Tensors& inputs, const std::vector<std::size_t>& owners,
                                    const Context& context) {
  const auto type = nothing_.options().requires_grad(false);
  const std::vector<std::int64_t> shape{options_.channels, options_.image_size, options_.image_size};
  if (owners.empty()) return torch::empty({0, shape[0], shape[1], shape[2]}, type);
  auto draws = draw_flow(owners, shape, options_.flow, context, type);
  const std::vector<bool> none(owners.size(), false), all(owners.size(), true);
  auto told = gather(inputs, owners, context, none);
  auto untold = options_.guidance == 1.0 ? told : gather(inputs, owners, context, all);
  auto velocity = [&](const Tensor& x, double time) {
    auto times = torch::full({x.size(0)}, time, draws.time.options());
    auto output = denoise(x, times, told);
    if (options_.guidance != 1.0) output = torch::lerp(denoise(x, times, untold), output, options_.guidance);
    return options_.flow.prediction == Prediction::velocity ? output : (x - output) / time;
  };
  return euler_sample(draws.noise, options_.sample_steps, velocity).clamp(-1, 1);
}

double DiffusionTransformer::forward_flops(const Microbatch& microbatch) const {
  const auto width = static_cast<double>(options_.width), ffn = static_cast<double>(options_.ffn);
  const auto targets = static_cast<double>(microbatch.count(options_.target));
  const auto patches = static_cast<double>(patch_count(options_.image_size, options_.image_size, options_.patch));
  double told = 1, projections = 0;
  for (const auto& source : options_.contexts) {
    auto rows = static_cast<double>(microbatch.max_count(source.input));
    if (source.kind == ContextSource::Kind::images) rows *= static_cast<double>(source.rows);
    told += rows;
    projections += 2 * rows * static_cast<double>(source.width) * width;
  }
  const double token = 2 * width * (4 * width + 2 * ffn);
  const double block = (told + patches) * token + attention_flops(1, told + patches, told + patches, width);
  const double ends =
      2 * 2 * patches * width * static_cast<double>(options_.channels * options_.patch * options_.patch);
  return targets * (projections + ends + static_cast<double>(options_.layers) * (block + 2 * 12 * width * width));
}

}  // namespace nestor::modules
