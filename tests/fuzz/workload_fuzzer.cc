// Workloads and model descriptions: read, written and read again, planned by every policy.
#include <nestor/scheduler/model_costs.h>
#include <nestor/scheduler/planner.h>
#include <nestor/tests/fuzz/fuzzing.h>

using namespace nestor;
using namespace nestor::scheduler;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_at_most([&] {
    if (is_model(text, "input")) {
      const ModelDescription model = read_model(text, "input");
      model_workload(model, {.stages = 2, .chunks = 2, .microbatches = 4});
      return;
    }
    const Workload workload = read_workload(text, "input");
    const std::string written = write_workload(workload);
    if (write_workload(read_workload(written, "again")) != written) std::abort();
    if (!fuzz::is_small(workload)) return;
    for (const std::string_view policy : policy_names()) {
      PlanRequest request;
      request.policy = policy;
      fuzz::expect_error_at_most([&] {
        const Plan plan = make_plan(workload, request);
        fuzz::expect_sound(plan, request.policy.c_str());
        if (simulate(plan).makespan != plan.makespan) std::abort();
      });
    }
  });
  return 0;
}
