// Policy files, for one of several workloads that the first byte chooses: what is accepted is sound.
#include <nestor/scheduler/policy_file.h>
#include <nestor/tests/fuzz/fuzzing.h>

using namespace nestor;
using namespace nestor::scheduler;

namespace {

Workload workload_of(std::uint8_t choice) {
  Workload w = make_workload(1 + choice % 3, 1 + choice / 3 % 2, 1 + choice / 6 % 4, 1, 2);
  if (choice & 64) w.pools.push_back(make_pool(w, "vision", PoolKind::encoder, 1.5, 3));
  if (choice & 128) w.pools.push_back(make_pool(w, "image", PoolKind::generator, 2, 4));
  w.llm.recompute = choice % 5 == 0;
  if (choice % 7 == 0) w.transfer_latency = 0.3;
  return w;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  fuzz::expect_error_at_most([&] {
    const Plan plan = read_policy(workload_of(data[0]), text, "input");
    fuzz::expect_sound(plan, "a policy file");
    if (digest(read_plan(write_plan(plan), "again").table) != digest(plan.table)) std::abort();
  });
  return 0;
}
