// Schedule tables of torch.distributed.pipelining in both dialects: read, verified, written and read again.
#include <nestor/scheduler/exchange/torch_csv.h>
#include <nestor/tests/fuzz/fuzzing.h>

using namespace nestor;
using namespace nestor::scheduler;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const CsvDialect dialect : {CsvDialect::torch, CsvDialect::torch_legacy}) {
    fuzz::expect_error_at_most([&] {
      const Plan plan = read_torch_csv(text, "input", dialect);
      verify(plan);
      simulate(plan);
      read_plan(write_plan(plan), "plan");
      const Plan again = read_torch_csv(write_torch_csv(plan, dialect, false), "again", dialect);
      fuzz::expect_sound(again, "a table without transfers");
    });
  }
  return 0;
}
