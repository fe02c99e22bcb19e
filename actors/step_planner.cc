#include <nestor/actors/batch_plan.h>
#include <nestor/actors/error.h>
#include <nestor/actors/step_planner.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::actors {
namespace {

constexpr std::size_t kKeptPlans = 256;

/// All that a plan of this job depends on, but for the costs.
std::string key_of(const ScheduleOptions& schedule, const BatchShape& shape, bool forward_only) {
  std::string key = schedule.policy + (forward_only ? " forward " : " train ") + std::to_string(shape.microbatches);
  for (const auto& [name, lanes] : schedule.pools) {
    key.append(" ").append(name);
    for (std::int32_t lane : lanes) key.append(",").append(std::to_string(lane));
  }
  for (const auto& row : shape.absent) {
    key += '|';
    for (std::uint8_t lacks : row) key += lacks ? '0' : '1';
  }
  for (const auto& row : shape.load) {
    key += '|';
    for (std::int32_t load : row) key += static_cast<char>('a' + load);
  }
  return key;
}

std::vector<std::int32_t> updating_lanes(const scheduler::OperatorTable& table) {
  std::vector<std::int32_t> lanes;
  for (std::int32_t lane = 0; lane < table.lanes(); ++lane)
    for (const auto& op : table.row(scheduler::LaneId{lane}))
      if (op.kind == scheduler::OpKind::update) lanes.push_back(lane);
  return lanes;
}

std::vector<PoolShape> pool_shapes(const scheduler::Workload& workload) {
  std::vector<PoolShape> shapes;
  for (const auto& pool : workload.pools) {
    PoolShape shape{pool.name, pool.kind == scheduler::PoolKind::encoder, {}, pool.absent};
    for (scheduler::ModuleId input : pool.inputs) shape.inputs.push_back(input.value);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::uint64_t full_digest(const scheduler::Plan& plan) {
  std::uint64_t digest = scheduler::digest(plan.table);
  for (std::int32_t microbatch : plan.microbatch_order)
    digest = (digest ^ static_cast<std::uint64_t>(microbatch + 1)) * 0x100000001b3ull;
  return digest;
}

}  // namespace

StepPlanner::StepPlanner(std::shared_ptr<const JobSpec> spec, const modules::StepBatch& batch)
    : spec_(std::move(spec)),
      outline_(modules::outline(spec_->model, modules::Seed(spec_->seed), batch.microbatches)),
      cut_(cut_model(spec_->model, outline_, spec_->schedule)),
      costs_(cut_.estimate) {}

std::shared_ptr<const PreparedPlan> StepPlanner::prepare(const ScheduleOptions& schedule,
                                                         const modules::StepBatch& batch, bool forward_only) {
  const BatchShape shape = shape_of(spec_->model, batch);
  const std::string key = key_of(schedule, shape, forward_only);
  if (const auto found = made_.find(key); found != made_.end()) return found->second;
  auto prepared = make(schedule, shape, forward_only);
  if (made_.size() >= kKeptPlans) made_.clear();
  made_[key] = prepared;
  return prepared;
}

std::shared_ptr<const PreparedPlan> StepPlanner::make(const ScheduleOptions& schedule, const BatchShape& shape,
                                                      bool forward_only) const {
  const scheduler::Workload workload = make_workload(spec_->model, outline_, schedule, costs_, shape, forward_only);
  scheduler::validate(workload, "schedule");
  scheduler::PlanRequest request;
  request.policy = schedule.policy;
  auto plan = std::make_shared<scheduler::Plan>(scheduler::make_plan(workload, request));
  auto placements = place_model(spec_->model, outline_, cut_, plan->workload);
  // Where a policy puts pools elsewhere (coupled does) is known only now, and with it which lanes share tied weights.
  if (!forward_only) {
    request.tied = tied_reductions(spec_->model, outline_, placements, plan->workload);
    if (!request.tied.empty()) *plan = scheduler::make_plan(workload, request);
  }
  if (const auto verdict = scheduler::verify(*plan, scheduler::Transport::single); !verdict.sound())
    throw Error("scheduler", std::string("the plan of policy ")
                                 .append(schedule.policy)
                                 .append(" is unsound: ")
                                 .append(verdict.faults[0].where)
                                 .append(": ")
                                 .append(verdict.faults[0].what));

  auto prepared = std::make_shared<PreparedPlan>();
  prepared->digest = full_digest(*plan);
  const auto updating = updating_lanes(plan->table);
  const auto pools = pool_shapes(plan->workload);
  for (std::int32_t lane = 0; lane < plan->table.lanes(); ++lane) {
    const auto row = plan->table.row(scheduler::LaneId{lane});
    prepared->rows.push_back({prepared->digest, scheduler::digest(plan->table, scheduler::LaneId{lane}), lane,
                              !forward_only, plan->workload.model_stages(), plan->workload.chunks,
                              plan->workload.microbatches, plan->microbatch_order, pools, updating,
                              plan->table.reductions, std::vector<scheduler::Operator>(row.begin(), row.end())});
  }
  prepared->placements = std::move(placements);
  prepared->plan = std::move(plan);
  return prepared;
}

void StepPlanner::add_measured(const PreparedPlan& prepared, const std::vector<LaneReport>& reports) {
  for (std::size_t lane = 0; lane < reports.size(); ++lane) measured_.add(prepared.rows[lane], reports[lane]);
  if (auto costs = measured_.step_done(costs_)) {
    costs_ = std::move(*costs);
    made_.clear();
  }
}

}  // namespace nestor::actors
