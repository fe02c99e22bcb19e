// 03: plan and simulate, without a model or a single tensor. How long does a step take under each policy, and how many
// activations does it hold? Only <nestor/scheduler/...> is used here, which is plain C++.
#include <algorithm>
#include <cstdio>

#include <nestor/scheduler/planner.h>
#include <nestor/scheduler/render/text.h>
#include <nestor/scheduler/simulator.h>
#include <nestor/scheduler/timeline.h>
#include <nestor/scheduler/verifier.h>

namespace ns = nestor::scheduler;

namespace {

double most(const std::vector<double>& lanes) {
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

int main() {
  // A workload says what a schedule must know: an LLM on 4 pipeline stages, 12 microbatches, and what each costs in
  // seconds (forward 1, backward 2). The same could come from a YAML file: ns::read_workload.
  ns::Workload workload = ns::make_workload(/*stages=*/4, /*chunks=*/1, /*microbatches=*/12, 1.0, 2.0);

  // A vision encoder with a member on each lane. Its output feeds the LLM's first stage.
  workload.pools.push_back(ns::make_pool(workload, "vision", ns::PoolKind::encoder, 1.5, 3.0));
  ns::validate(workload, "example");  // throws ns::Error, naming the field

  std::printf("%-10s %9s %7s %14s %17s\n", "policy", "makespan", "bubble", "LLM in flight", "vision in flight");
  double coupled = 0, nested = 0;
  for (auto policy : {"coupled", "decoupled", "nested"}) {
    // A plan is the order of every lane's operators, sends and receives included.
    ns::Plan plan = ns::make_plan(workload, {policy, {}, {}});

    // The verifier proves that it is complete, in order, and cannot hang, here on the strictest transport.
    ns::Verdict verdict = ns::verify(plan, ns::Transport::single);
    if (!verdict.sound()) {
      std::printf("%s: %s\n", verdict.faults[0].where.c_str(), verdict.faults[0].what.c_str());
      return 1;
    }
    ns::Simulation figures = ns::simulate(plan);
    std::printf("%-10s %7.1f s %5.1f %% %14.0f %17.0f\n", policy, figures.makespan, figures.bubble * 100,
                most(figures.in_flight[0]), most(figures.in_flight[1]));
    if (plan.policy == "coupled") coupled = figures.makespan;
    if (plan.policy == "nested") {
      nested = figures.makespan;
      // The plan as a grid: F and B are the LLM's forward and backward, v and V the encoder's.
      std::printf("\n%s", ns::render_text(ns::planned_timeline(plan), 130).c_str());
    }
  }
  std::printf(
      "\nnested is %.2f times as fast as coupled, and holds 2 encoder activations a lane however long the step\n",
      coupled / nested);
  return nested < coupled ? 0 : 1;
}
