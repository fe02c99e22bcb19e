// 06: a program as the driver of a cluster's job. It brings up two worker processes on this host, starts a training
// there, paused, and steers it: steps, another policy, a smaller pool. Then a second driver attaches while the first
// one is gone, and finds everything as it was left. With arguments it is the nestor program itself, which the cluster's
// processes are started as.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <nestor/launch/attach.h>
#include <nestor/launch/run.h>

namespace {

constexpr const char* kCluster = R"(format: nestor.cluster/1
name: example
head: {host: 127.0.0.1, port: 0}
hosts:
  - {host: 127.0.0.1, lanes: 2}
launch: local
)";
constexpr const char* kConfig = R"(format: nestor.train/1
run: {dir: run, steps: 8, checkpoint_every: 0, eval_every: 0, trace_every: 0, report_samples: 0}
data: {kind: synthetic, samples: 64, image_size: 8}
model:
  encoders: {vision: {kind: vit, patch: 4, width: 16, layers: 1, heads: 2}}
  llm: {kind: qwen3, layers: 4, width: 16, heads: 2}
schedule: {policy: nested, stages: 2, chunks: 1, microbatches: 3, microbatch_size: 2}
optimizer: {kind: adamw, lr: 1.0e-3}
)";

int nestor_command(std::vector<std::string> words) {
  words.insert(words.begin(), "nestor");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return nestor::run(static_cast<int>(words.size()), argv.data());
}

void print(const std::vector<nestor::launch::StepRow>& rows, const char* what) {
  for (const auto& row : rows)
    std::printf("step %lld (%s): loss %.4f\n", static_cast<long long>(row.step), what, row.loss);
}

bool drive(const std::string& config) {
  {
    auto job = nestor::start_attached("example", config);
    job->step(2);
    print(job->history(0), "nested");
    job->policy("coupled");
    job->resize("vision", 1);
    job->step(2);
    print(job->history(2), "coupled, one encoder");
  }  // this driver leaves; the job waits, paused

  auto job = nestor::attach("example");
  const auto found = job->status().job;
  std::printf("found %s after step %lld, policy %s\n", found.state.c_str(), static_cast<long long>(found.step),
              found.policy.c_str());
  job->policy("nested");
  job->resize("vision", std::vector<std::int32_t>{0, 1});
  const auto end = job->run();
  print(job->history(4), "nested again");
  return found.state == "paused" && found.step == 4 && end.state == "done" && end.step == 8;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return nestor::run(argc, argv);

  const auto folder = std::filesystem::temp_directory_path() / ("nestor-example-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  ::setenv("NESTOR_HOME", (folder / "home").c_str(), 1);  // not the user's own clusters
  std::ofstream("cluster.yaml") << kCluster;
  std::ofstream("config.yaml") << kConfig;

  int code = nestor_command({"up", "cluster.yaml"});
  if (code == 0) {
    try {
      code = drive("config.yaml") ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      code = 1;
    }
    if (nestor_command({"down", "example"}) != 0) code = 1;
  }
  std::filesystem::current_path("/");
  std::filesystem::remove_all(folder);
  return code;
}
