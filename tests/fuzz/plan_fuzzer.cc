// Plan files: read, written and read again, verified under every transport, simulated, shown.
#include <nestor/scheduler/timeline.h>
#include <nestor/tests/fuzz/fuzzing.h>

using namespace nestor;
using namespace nestor::scheduler;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_error_at_most([&] {
    const Plan plan = read_plan(text, "input");
    const std::string written = write_plan(plan);
    if (digest(read_plan(written, "again").table) != digest(plan.table)) std::abort();
    if (!fuzz::is_small(plan.workload)) return;
    for (const char* transport : {"buffered", "edge", "pair", "single"}) verify(plan, parse_transport(transport));
    fuzz::expect_error_at_most([&] { simulate(plan); });
    fuzz::expect_error_at_most([&] { write_trace(planned_timeline(plan)); });
  });
  return 0;
}
