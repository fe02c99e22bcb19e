#pragma once
/// Inside scheduler/: for orders that did not come from a policy.

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// Is the LLM's order of a sound plan 1F1B or the interleaved order, with more warm-up or without? Sets
/// `custom_backbone` and `extra_warmup` accordingly.
void recognise_backbone(Plan& plan);

}  // namespace nestor::scheduler
