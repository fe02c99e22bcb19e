// 02: a module actor of one's own. An encoder that is nowhere in Nestor, declared here, trained as a pool of two
// members on a two-stage pipeline. A module says what is computed; which lane runs it, when, and with whom gradients
// are summed is the plan's business.
//
//   example_02_module_actor                      trains a little on made-up pictures
//   example_02_module_actor train my.yaml ...    is the whole nestor program, with this model
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <nestor/launch/run.h>
#include <nestor/modules/layers/basic.h>
#include <nestor/modules/llm/qwen3.h>
#include <nestor/modules/modules.h>

namespace nm = nestor::modules;

// Sees a picture as a coarse grid of mean colours, each a token for the LLM. Any module derives from nestor::Module and
// has a forward over tensors; backward comes from LibTorch.
class ColourGrid : public nestor::Module {
 public:
  // Weights are drawn from the seed alone, so that every member of the pool starts alike.
  ColourGrid(std::int64_t side, std::int64_t width, nestor::Seed seed)
      : side_(side),
        rise_(register_module("rise", std::make_shared<nm::Linear>(3, width, seed.child("rise")))),
        out_(register_module("out", std::make_shared<nm::Linear>(width, width, seed.child("out")))) {}

  // Inputs: {pixels [pictures, 3, H, W]}. Outputs: {[pictures, side * side, width]}.
  nestor::Tensors forward(const nestor::Tensors& inputs, const nestor::Context&) override {
    auto grid = torch::adaptive_avg_pool2d(inputs[0], {side_, side_}).flatten(2).transpose(1, 2);
    return {out_->forward(torch::gelu(rise_->forward(grid)))};
  }

 private:
  std::int64_t side_;
  std::shared_ptr<nm::Linear> rise_, out_;
};

// The model, from the config's `model` section. `data` in it is filled in by Nestor: vocabulary, placeholder, ...
nestor::Model build(const nestor::ModelConfig& config) {
  auto width = config["width"].as<std::int64_t>();
  auto tokens_of_picture = config["image_tokens"].as<std::int64_t>();
  std::int64_t side = 1;
  while (side * side < tokens_of_picture) ++side;

  nm::Qwen3Options llm;
  llm.vocabulary = config["data"]["vocabulary"].as<std::int64_t>();
  llm.layers = config["layers"].as<std::int64_t>();
  llm.width = width;
  llm.ffn = 2 * width;
  llm.head_dim = width / llm.heads;
  llm.splices.push_back({config["data"]["image_token"].as<std::int64_t>(), "pixels"});

  nestor::Model model;
  auto pixels = model.input("pixels"), tokens = model.input("tokens"), labels = model.input("labels");
  auto seen = model.encoder("colours", {pixels}, [=](nestor::Seed seed) { return ColourGrid(side, width, seed); });
  auto hidden = model.llm("llm", {tokens, seen}, nm::decoder_layers(llm));
  auto logits = model.head("text", {hidden}, [=](nestor::Seed seed) { return nm::LanguageHead(llm, seed); });
  model.loss("text", {logits, labels}, nestor::token_cross_entropy);
  return model;
}

int main(int argc, char** argv) {
  if (argc > 1) return nestor::run(argc, argv, build);  // train, generate, plan, ...

  auto folder = std::filesystem::temp_directory_path() / ("nestor_example_02_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.yaml")
      << "format: nestor.train/1\n"
      << "run: {dir: " << folder.string() << "/run, steps: 10, eval_every: 0}\n"
      << "data: {kind: synthetic, image_size: 16, targets: {}}\n"
      << "model: {width: 32, layers: 4, image_tokens: 16}\n"
      << "schedule: {policy: nested, stages: 2, microbatches: 4, microbatch_size: 4,\n"
      << "           pools: {colours: 2}}\n"
      << "optimizer: {lr: 3.0e-3}\n";
  std::vector<std::string> words{"nestor", "train", (folder / "config.yaml").string()};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  int code = nestor::run(static_cast<int>(arguments.size()), arguments.data(), build);

  std::ifstream metrics(folder / "run" / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) std::printf("%s\n", line.substr(0, 60).c_str());
  std::filesystem::remove_all(folder);
  return code;
}
