#include <algorithm>
#include <map>

#include <nestor/modules/config_section.h>
#include <nestor/modules/encoder/vit.h>
#include <nestor/modules/generator/mmdit.h>
#include <nestor/modules/llm/qwen3.h>
#include <nestor/modules/model_config.h>
#include <nestor/modules/train/loss.h>

namespace nestor::modules {

namespace {

constexpr std::int64_t kWidest = 1 << 16, kDeepest = 4096;

struct EncoderConfig {
  std::string name;
  VitOptions vit;
};

/// Width, heads and MLP of a transformer without grouped queries.
template <class Options>
void read_sizes(ConfigSection& section, Options& options) {
  options.patch = section.integer("patch", options.patch, 1, 1024);
  options.width = section.integer("width", options.width, 4, kWidest);
  if (options.width % 4 != 0) section.fail("width", "is no multiple of 4", "the grid positions need four parts");
  options.layers = section.integer("layers", options.layers, 1, kDeepest);
  options.heads = section.integer("heads", std::min<std::int64_t>(options.heads, options.width), 1, kWidest);
  if (options.width % options.heads != 0) section.fail("heads", "does not divide width", "width / heads is a head's");
  options.ffn = section.integer("ffn", 4 * options.width, 1, 4 * kWidest);
}

std::vector<EncoderConfig> read_encoders(ConfigSection& model, std::int64_t channels, std::int64_t image_size) {
  std::vector<EncoderConfig> encoders;
  auto all = model.section("encoders");
  for (const auto& name : all.keys()) {
    auto section = all.section(name);
    EncoderConfig encoder{name, {}};
    section.choice("kind", {"vit"});
    encoder.vit.channels = channels;
    encoder.vit.image_size = image_size;
    encoder.vit.input = section.text("input", "pixels");
    read_sizes(section, encoder.vit);
    section.finish();
    encoders.push_back(std::move(encoder));
  }
  return encoders;
}

struct LlmConfig {
  Qwen3Options qwen3;
  double balance_weight = 0;
  bool tied = true;
};

LlmConfig read_llm(ConfigSection& model, const DatasetInfo& info) {
  auto section = model.section("llm");
  LlmConfig llm;
  auto& options = llm.qwen3;
  section.choice("kind", {"qwen3"});
  options.vocabulary = info.vocabulary_size;
  options.layers = section.integer("layers", options.layers, 1, kDeepest);
  options.width = section.integer("width", options.width, 1, kWidest);
  options.heads = section.integer("heads", options.heads, 1, kWidest);
  options.kv_heads = section.integer("kv_heads", options.heads, 1, kWidest);
  if (options.heads % options.kv_heads != 0) section.fail("kv_heads", "does not divide heads", "heads share them");
  options.head_dim = section.integer("head_dim", std::max<std::int64_t>(options.width / options.heads, 2), 2, kWidest);
  if (options.head_dim % 2 != 0) section.fail("head_dim", "is odd", "rotary positions turn pairs");
  options.ffn = section.integer("ffn", 3 * options.width, 1, 4 * kWidest);
  options.experts = section.integer("experts", 0, 0, 4096);
  options.top_k = section.integer("top_k", std::clamp<std::int64_t>(options.experts, 1, 2), 1, 4096);
  if (options.experts > 0 && options.top_k > options.experts) {
    section.fail("top_k", "is more than experts", "a token goes to top_k of them");
  }
  options.rope_base = section.number("rope_base", options.rope_base, 1, 1e12);
  llm.balance_weight = section.number("balance_weight", 0.01, 0, 1e6);
  llm.tied = section.flag("tied", true);
  section.finish();
  return llm;
}

struct GeneratorConfig {
  std::string name;
  std::vector<std::string> inputs;
  double weight = 1;
  MmditOptions mmdit;
};

std::vector<GeneratorConfig> read_generators(ConfigSection& model, const DatasetInfo& info) {
  std::vector<GeneratorConfig> generators;
  auto all = model.section("generators");
  for (const auto& name : all.keys()) {
    auto section = all.section(name);
    GeneratorConfig generator;
    generator.name = name;
    section.choice("kind", {"mmdit"});
    generator.inputs = section.texts("inputs", {"llm"});
    generator.mmdit.target = section.text("target", "target");
    generator.weight = section.number("weight", 1, 0, 1e6);
    auto& options = generator.mmdit;
    options.channels = info.channels;
    options.image_size = info.image_size;
    read_sizes(section, options);
    auto& flow = options.flow;
    flow.prediction =
        section.choice("prediction", {"velocity", "sample"}) == "sample" ? Prediction::sample : Prediction::velocity;
    flow.time_mean = section.number("time_mean", flow.time_mean, -20, 20);
    flow.time_std = section.number("time_std", flow.time_std, 0, 20);
    flow.drop_context = section.number("drop_context", flow.drop_context, 0, 1);
    options.sample_steps = section.integer("sample_steps", options.sample_steps, 1, 100000);
    options.guidance = section.number("guidance", options.guidance, 0, 1000);
    section.finish();
    generators.push_back(std::move(generator));
  }
  return generators;
}

void check_name(const ConfigSection& model, const std::string& kind, const std::string& name) {
  static const std::vector<std::string> taken{"pixels", "tokens", "labels", "target", "llm", "text", "balance"};
  if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
    model.fail(kind + "." + name, "the name is taken", "choose another");
  }
}

}  // namespace

Model model_from_config(const YAML::Node& node, const DatasetInfo& info, const std::string& source) {
  ConfigSection section(node, source, "model");
  auto encoders = read_encoders(section, info.channels, info.image_size);
  if (!section.has("llm")) section.fail("llm", "is missing", "a model has one: llm: {kind: qwen3, ...}");
  auto llm = read_llm(section, info);
  auto generators = read_generators(section, info);
  const auto frozen = section.texts("frozen", {});
  section.finish();

  Model model;
  std::map<std::string, Value> values;
  std::map<std::string, ContextSource> sources;
  std::vector<Value> llm_inputs{model.input("tokens")};
  const auto labels = model.input("labels");
  for (auto& encoder : encoders) {
    check_name(section, "encoders", encoder.name);
    auto& vit = encoder.vit;
    vit.llm_width = llm.qwen3.width;
    if (!values.contains(vit.input)) values[vit.input] = model.input(vit.input);
    const auto placeholder = info.placeholders.find(vit.input);
    if (placeholder == info.placeholders.end()) {
      section.fail("encoders." + encoder.name + ".input", "the data has no " + vit.input + " in its text",
                   "choose tasks that read pictures, or leave the encoder out");
    }
    llm.qwen3.splices.push_back({placeholder->second, vit.input});
    values[encoder.name] =
        model.encoder(encoder.name, {values.at(vit.input)}, [vit](Seed seed) { return VisionTransformer(vit, seed); });
    sources[encoder.name] = {ContextSource::Kind::images, vit.input, vit.llm_width,
                             patch_count(info.image_size, info.image_size, vit.patch)};
    llm_inputs.push_back(values[encoder.name]);
  }
  values["llm"] = model.llm("llm", llm_inputs, decoder_layers(llm.qwen3));
  sources["llm"] = {ContextSource::Kind::sequence, "tokens", llm.qwen3.width, 0};
  const auto qwen3 = llm.qwen3;
  const auto logits = model.head("text", {values["llm"]}, [qwen3](Seed seed) { return LanguageHead(qwen3, seed); });
  model.loss("text", {logits, labels}, token_cross_entropy);
  if (llm.tied) model.tie("text.weight", "llm.layers.0.weight");
  if (qwen3.experts > 0) {
    // A mean over layers and samples: 1 is balanced, whatever the depth.
    const auto layers = qwen3.layers;
    model.layer_loss(
        "balance", [layers](const Sample& sample) { return sample.has("tokens") ? layers : 0; }, llm.balance_weight);
  }
  for (auto& generator : generators) {
    check_name(section, "generators", generator.name);
    std::vector<Value> inputs;
    for (const auto& input : generator.inputs) {
      auto found = sources.find(input);
      if (found == sources.end()) {
        section.fail("generators." + generator.name + ".inputs", "no encoder is named " + input,
                     "llm or the name of an encoder");
      }
      inputs.push_back(values[input]);
      generator.mmdit.contexts.push_back(found->second);
    }
    const auto& target = generator.mmdit.target;
    if (!values.contains(target)) values[target] = model.input(target);
    inputs.push_back(values[target]);
    const auto options = generator.mmdit;
    model.generator(
        generator.name, inputs, [options](Seed seed) { return DiffusionTransformer(options, seed); }, count_of(target),
        generator.weight);
  }
  for (const auto& pattern : frozen) model.freeze(pattern);
  model.validate();
  return model;
}

std::int64_t image_tokens(const YAML::Node& node, std::int64_t image_size, const std::string& source) {
  ConfigSection section(node, source, "model");
  std::int64_t tokens = 0;
  for (const auto& encoder : read_encoders(section, 3, image_size)) {
    if (encoder.vit.input == "pixels") tokens += patch_count(image_size, image_size, encoder.vit.patch);
  }
  return tokens;
}

}  // namespace nestor::modules
