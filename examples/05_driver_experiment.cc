// 05: a driver's experiment. One job, kept alive: between steps the driver changes the policy and the size of the
// encoder's pool, measures a few steps of each, and compares. Parameters and optimizer state stay where they are or
// move to the new members; the training simply goes on, and would have gone the same way without the changes.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>
#include <nestor/modules/data/synthetic.h>
#include <nestor/modules/data/tokenizer.h>
#include <nestor/modules/encoder/vit.h>
#include <nestor/modules/llm/qwen3.h>
#include <nestor/modules/modules.h>

namespace nm = nestor::modules;

namespace {

constexpr std::int64_t kSide = 16, kPatch = 4, kWidth = 32;

std::shared_ptr<const nestor::Dataset> pictures() {
  nm::SyntheticOptions options;  // made-up samples: the experiment is about speed
  options.image_size = kSide;
  options.images = {{"pixels", 1.0, (kSide / kPatch) * (kSide / kPatch), nm::id(nm::SpecialToken::image)}};
  return std::make_shared<nm::SyntheticDataset>(options);
}

nestor::Model declare() {
  nestor::Model model;
  auto pixels = model.input("pixels"), tokens = model.input("tokens"), labels = model.input("labels");
  nm::VitOptions vit;
  vit.width = kWidth, vit.ffn = 2 * kWidth, vit.layers = 3, vit.llm_width = kWidth, vit.image_size = kSide;
  auto seen = model.encoder("vision", {pixels}, [=](nestor::Seed seed) { return nm::VisionTransformer(vit, seed); });
  nm::Qwen3Options llm;
  llm.vocabulary = 64, llm.layers = 4, llm.width = kWidth, llm.ffn = 2 * kWidth, llm.head_dim = kWidth / llm.heads;
  llm.splices.push_back({nm::id(nm::SpecialToken::image), "pixels"});
  auto hidden = model.llm("llm", {tokens, seen}, nm::decoder_layers(llm));
  auto logits = model.head("text", {hidden}, [=](nestor::Seed seed) { return nm::LanguageHead(llm, seed); });
  model.loss("text", {logits, labels}, nestor::token_cross_entropy);
  return model;
}

struct Result {
  std::string policy;
  std::vector<std::int32_t> pool;
  double seconds, bubble, loss, in_flight;
};

}  // namespace

int main() {
  nestor::Runtime runtime;
  nestor::actors::JobSpec spec;
  spec.model = declare();
  spec.dataset = pictures();
  spec.optimizer.lr = 3e-3;
  spec.schedule.policy = "coupled";
  spec.schedule.stages = 2;
  spec.schedule.microbatches = 6;
  spec.schedule.microbatch_size = 2;
  spec.schedule.pools["vision"] = {0};
  auto job = nestor::actors::make_job(runtime, spec);

  std::vector<Result> results;
  for (const std::string policy : {"coupled", "decoupled", "nested"}) {
    for (std::vector<std::int32_t> pool : {std::vector<std::int32_t>{0}, std::vector<std::int32_t>{0, 1}}) {
      job->set_policy(policy);      // from the next step on
      job->resize("vision", pool);  // the new member gets its parameters and optimizer state from its peer
      Result result{policy, pool, 1e9, 0, 0, 0};
      job->step();  // the first after a change is not measured
      for (int i = 0; i < 3; ++i) {
        auto step = job->step();
        if (step.seconds < result.seconds) result.seconds = step.seconds, result.bubble = step.bubble;
        result.loss = step.loss;
        for (double count : step.in_flight["vision"]) result.in_flight = std::max(result.in_flight, count);
      }
      results.push_back(result);
    }
  }

  std::printf("%-10s %-8s %9s %8s %10s %8s\n", "policy", "members", "step", "bubble", "in flight", "loss");
  for (const auto& result : results)
    std::printf("%-10s %-8zu %6.1f ms %6.1f %% %10.0f %8.3f\n", result.policy.c_str(), result.pool.size(),
                result.seconds * 1e3, result.bubble * 100, result.in_flight, result.loss);
  std::printf("%lld steps in all, one run: the loss went on falling through every change\n",
              static_cast<long long>(job->steps_done()));
  return results.back().loss < results.front().loss ? 0 : 1;
}
