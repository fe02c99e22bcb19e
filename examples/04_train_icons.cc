// 04: train from C++. The model is declared once, module by module; nothing in it says stage, lane or send. The same
// declaration trains in a plain loop or on a pipeline, with the same losses.
//
//   example_04_train_icons [FOLDER OF PICTURES] [STEPS]
//
// Without a folder it takes the Tango icons (apt install tango-icon-theme), or made-up pictures where they are missing.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>
#include <nestor/modules/data/dataset_config.h>
#include <nestor/modules/encoder/vit.h>
#include <nestor/modules/generator/mmdit.h>
#include <nestor/modules/llm/qwen3.h>
#include <nestor/modules/modules.h>

namespace nm = nestor::modules;

namespace {

constexpr std::int64_t kSide = 16, kPatch = 4, kWidth = 32;

/// Pictures and captions: read a picture (pixels to its name), draw one (name to pixels).
nm::LoadedDataset load(const char* folder) {
  YAML::Node data;
  if (folder) {
    data["kind"] = "image_folder";
    data["path"] = folder;
  } else {
    data["kind"] = "synthetic";
  }
  data["image_size"] = kSide;
  nm::DatasetOptions options;
  options.image_tokens = [](std::int64_t side) { return (side / kPatch) * (side / kPatch); };
  return nm::make_dataset(data, options);
}

nestor::Model declare(const nm::DatasetInfo& data) {
  nestor::Model model;
  // Inputs: each may be absent in a sample. A picture to be drawn has no pixels, one to be read no target.
  auto pixels = model.input("pixels"), tokens = model.input("tokens");
  auto labels = model.input("labels"), target = model.input("target");

  nm::VitOptions vit;
  vit.patch = kPatch, vit.width = kWidth, vit.ffn = 2 * kWidth, vit.llm_width = kWidth, vit.image_size = kSide;
  auto seen = model.encoder("vision", {pixels}, [=](nestor::Seed seed) { return nm::VisionTransformer(vit, seed); });

  // The LLM is a list of layers: the planner cuts it into stages. Image embeddings replace the placeholder tokens.
  nm::Qwen3Options llm;
  llm.vocabulary = data.vocabulary_size;
  llm.layers = 4, llm.width = kWidth, llm.ffn = 2 * kWidth, llm.head_dim = kWidth / llm.heads;
  llm.splices.push_back({data.placeholders.at("pixels"), "pixels"});
  auto hidden = model.llm("llm", {tokens, seen}, nm::decoder_layers(llm));
  auto logits = model.head("text", {hidden}, [=](nestor::Seed seed) { return nm::LanguageHead(llm, seed); });
  model.loss("text", {logits, labels}, nestor::token_cross_entropy);

  // The generator reads the hidden states and returns its own loss.
  nm::MmditOptions image;
  image.image_size = kSide, image.patch = kPatch, image.width = kWidth, image.ffn = 2 * kWidth, image.layers = 2;
  image.contexts = {{nm::ContextSource::Kind::sequence, "tokens", kWidth}};
  model.generator(
      "image", {hidden, target}, [=](nestor::Seed seed) { return nm::DiffusionTransformer(image, seed); },
      nm::count_of("target"));
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  const char* tango = "/usr/share/icons/Tango/16x16";
  auto folder = argc > 1 ? argv[1] : std::filesystem::is_directory(tango) ? tango : nullptr;
  auto steps = argc > 2 ? std::atoll(argv[2]) : 12;
  auto data = load(folder);

  nestor::actors::JobSpec spec;
  spec.model = declare(data.info);
  spec.dataset = data.dataset;
  spec.optimizer.lr = 3e-3;
  spec.optimizer.warmup = 5;
  spec.schedule.policy = "nested";
  spec.schedule.stages = 2;  // two pipeline stages: a lane, that is a thread, each
  spec.schedule.microbatches = 4;
  spec.schedule.microbatch_size = 4;

  nestor::Runtime runtime;  // holds the actors: the scheduler and an executor per lane
  auto job = nestor::actors::make_job(runtime, spec);
  double first = 0, last = 0;
  for (long long i = 0; i < steps; ++i) {
    nestor::actors::StepReport step = job->step();
    std::printf("step %3lld  text %6.3f  image %6.3f  bubble %4.1f %%\n", static_cast<long long>(step.step),
                step.losses["text"], step.losses["image"], step.bubble * 100);
    (i == 0 ? first : last) = step.losses["text"];
  }

  // A checkpoint can be read under any other cut, policy or pool size.
  auto checkpoint = std::filesystem::temp_directory_path() / ("nestor_example_04_" + std::to_string(::getpid()));
  job->save(checkpoint);
  std::printf("saved %s\n", checkpoint.c_str());
  std::filesystem::remove_all(checkpoint);
  return last < first ? 0 : 1;
}
