#include <nestor/scheduler/recognise.h>
#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler {

void recognise_backbone(Plan& plan) {
  const Workload& w = plan.workload;
  for (std::int32_t s = 0; s < w.model_stages(); ++s)
    if (w.llm.lanes[static_cast<std::size_t>(s)].value != s % w.stages) {
      plan.custom_backbone = true;
      return;
    }
  const std::int32_t total = w.microbatches * w.chunks, least = (w.chunks - 1) * w.stages;
  std::int32_t ahead = 0;  // D shows on the last lane's first forwards
  for (const Operator& row : plan.table.row(LaneId{w.stages - 1})) {
    if (row.module != kLlm.value || !row.is_compute()) continue;
    if (row.kind != OpKind::forward) break;
    ++ahead;
  }
  for (const std::int32_t warmup : {ahead - 1, total}) {  // all forwards first: any D from there on looks the same
    if (warmup < least) continue;
    plan.extra_warmup = warmup - least;
    plan.custom_backbone = false;
    std::vector<Fault> faults;
    verification::State state(plan, faults);
    verification::check_rows(state);
    if (faults.empty()) verification::check_backbone(state);
    if (faults.empty()) return;
  }
  plan.custom_backbone = true;
  plan.extra_warmup = 0;
}

}  // namespace nestor::scheduler
