#pragma once

#include <cstdlib>
#include <iostream>

#include <nestor/scheduler/error.h>
#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::fuzz {

/// Operators up to which an input is also planned: larger ones only cost time.
inline constexpr std::int64_t kSmall = 4000;

inline bool is_small(const scheduler::Workload& w) {
  return 2 * std::int64_t{w.microbatches} * (w.model_stages() + std::int64_t(w.pools.size())) <= kSmall &&
         w.lane_count() <= 256;
}

/// Runs `work`; an Error is the right answer to bad input, anything else is a find.
template <class Work>
void expect_error_at_most(const Work& work) {
  try {
    work();
  } catch (const scheduler::Error& error) {
    const std::string_view what = error.what();
    if (what.empty() || what.find('\n') != std::string_view::npos) {
      std::cerr << "an error of several lines: " << what << '\n';
      std::abort();
    }
  }
}

inline void expect_sound(const scheduler::Plan& plan, const char* who) {
  const scheduler::Verdict verdict = scheduler::verify(plan);
  if (verdict.sound()) return;
  std::cerr << who << " made an unsound plan: " << verdict.faults[0].where << ": " << verdict.faults[0].what << '\n'
            << scheduler::write_workload(plan.workload) << '\n';
  std::abort();
}

}  // namespace nestor::fuzz
