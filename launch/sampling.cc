#include <algorithm>

#include <nestor/launch/files.h>
#include <nestor/launch/sampling.h>
#include <nestor/modules/data/collate.h>
#include <nestor/modules/data/prompt.h>
#include <nestor/modules/train/checkpoint.h>

namespace nestor::launch {
namespace {

using modules::Model;

modules::Microbatch describe(std::size_t count, const std::string& input,
                             const std::vector<std::vector<std::int64_t>>& tokens, std::int64_t step) {
  modules::Microbatch microbatch;
  microbatch.step = step;
  for (std::size_t i = 0; i < count; ++i) {
    modules::Sample sample;
    sample.id = static_cast<std::int64_t>(i);
    sample.counts["tokens"] = static_cast<std::int64_t>(tokens[i].size());
    sample.counts[input] = 1;
    microbatch.samples.push_back(std::move(sample));
  }
  return microbatch;
}

}  // namespace

Sampling::Sampling(const TrainingSet& set, const modules::PartOptions& options,
                   const std::vector<std::pair<std::string, torch::Tensor>>& parameters)
    : set_(set), model_(set.model, options) {
  modules::load_into(model_.parameters(), parameters, "model");
  for (const auto& node : set.model.nodes()) {
    if (node.kind == Model::Kind::head && head_.empty()) head_ = node.name;
    if (node.kind == Model::Kind::generator && generator_.empty()) generator_ = node.name;
    if (node.kind == Model::Kind::input && node.name == "pixels") reads_pixels_ = true;
  }
}

std::vector<std::string> Sampling::read(const torch::Tensor& pictures, std::int64_t limit) {
  auto count = static_cast<std::size_t>(pictures.size(0));
  std::vector<std::vector<std::int64_t>> tokens(count, modules::read_prompt(set_.image_tokens));
  auto prompt = tokens.empty() ? 0 : tokens[0].size();
  std::vector<bool> ended(count, false);
  for (std::int64_t length = 0; length < limit && !std::all_of(ended.begin(), ended.end(), [](bool e) { return e; });
       ++length) {
    // All texts grow together, so there is no padding; an ended one is fed its own end, which nobody reads.
    auto microbatch = describe(count, "pixels", tokens, 0);
    modules::InputMap inputs{{"tokens", modules::collate_tokens(tokens, modules::id(modules::SpecialToken::pad))},
                             {"pixels", pictures}};
    auto logits = model_.head(head_, model_.hidden(microbatch, inputs), microbatch, inputs).at(0);
    auto next = logits.select(1, logits.size(1) - 1).argmax(-1).to(torch::kCPU).contiguous();
    for (std::size_t i = 0; i < count; ++i) {
      auto token = ended[i] ? modules::id(modules::SpecialToken::end) : next.data_ptr<std::int64_t>()[i];
      ended[i] = ended[i] || token == modules::id(modules::SpecialToken::end);
      tokens[i].push_back(token);
    }
  }
  std::vector<std::string> names;
  for (const auto& text : tokens)
    names.push_back(readable(set_.tokenizer->decode({text.data() + prompt, text.size() - prompt})));
  return names;
}

torch::Tensor Sampling::draw(const std::vector<std::string>& texts, std::uint64_t seed) {
  std::vector<std::vector<std::int64_t>> tokens;
  for (const auto& text : texts) tokens.push_back(modules::draw_prompt(*set_.tokenizer, text));
  // Noise is drawn from (seed, step, sample): the step tells one drawing from another.
  auto microbatch = describe(texts.size(), "target", tokens, static_cast<std::int64_t>(seed >> 1));
  modules::InputMap inputs{{"tokens", modules::collate_tokens(tokens, modules::id(modules::SpecialToken::pad))}};
  return model_.sample(generator_, microbatch, inputs).at(0).to(torch::kCPU, torch::kFloat32);
}

}  // namespace nestor::launch
