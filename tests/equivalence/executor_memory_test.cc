// Nothing stays behind: the bytes of live tensors are the same after every step, and the process does not grow.

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>

#include "../unit/modules/live_bytes.h"
#include "tiny_model.h"

namespace nestor::test {
namespace {

/// Of this process.
std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(ExecutorMemory, IsTheSameAfterEveryStep) {
  LiveBytes live;
  TinyOptions model;
  model.tied = true;
  model.generator_sees = true;
  model.shortest = model.longest = 6;  // masks and positions are kept for the longest text seen
  // Every step has enough of every modality for all members (a module keeps tables from its first use on), and now and
  // then microbatches without one.
  const auto data = tiny_data(model, 0.5, [](const modules::Sample& sample, std::string_view input, bool) {
    return input == "labels" || sample.id % 4 != 0;
  });
  auto spec = tiny_job(model, data);
  spec.schedule.stages = 2;
  spec.schedule.microbatches = 4;
  spec.schedule.pools["see_pixels"] = {0, 1};
  Runtime runtime;
  auto job = actors::make_pipeline_job(runtime, spec);
  std::int64_t after_ten = 0, resident_after_ten = 0;
  for (int step = 1; step <= 300; ++step) {
    job->step(step % 50 == 0);
    if (step == 10) {
      after_ten = live.now();
      resident_after_ten = resident_bytes();
    }
    if (step > 10) {
      ASSERT_EQ(live.now(), after_ten) << "after step " << step;
    }
    if (step % 100 == 0) job->evaluate(4);
  }
  const double growth =
      static_cast<double>(resident_bytes() - resident_after_ten) / static_cast<double>(resident_after_ten);
  RecordProperty("live_bytes", std::to_string(after_ten));
  RecordProperty("resident_growth", std::to_string(growth));
  EXPECT_LE(growth, 0.02);
}

/// Activations in flight cost what the plan says, not what M says.
TEST(ExecutorMemory, PeakDoesNotGrowWithMicrobatches) {
  auto peak = [](std::int32_t microbatches) {
    LiveBytes live;
    TinyOptions model;
    model.generators.clear();
    auto spec = tiny_job(model, tiny_data(model, 1.0));
    spec.schedule.stages = 2;
    spec.schedule.microbatches = microbatches;
    Runtime runtime;
    auto job = actors::make_pipeline_job(runtime, spec);
    job->step();
    job->step();
    const std::int64_t rest = live.now();
    live.reset_peak();
    job->step();
    return live.peak() - rest;
  };
  const auto few = static_cast<double>(peak(8)), many = static_cast<double>(peak(32));
  EXPECT_LE(many, 1.4 * few);  // lengths differ from step to step, and lanes meet by chance
}

}  // namespace
}  // namespace nestor::test
