#include <c10/util/Exception.h>

#include <nestor/actors/batch_plan.h>
#include <nestor/actors/error.h>
#include <nestor/actors/gradient_exchange.h>
#include <nestor/actors/lane.h>
#include <nestor/modules/reference_step.h>
#include <nestor/modules/train/counts.h>
#include <nestor/scheduler/plan.h>

namespace nestor::actors {

using scheduler::OpKind;

namespace {

/// LibTorch's errors carry a backtrace of many lines.
std::string plain(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

Lane::Lane(std::int32_t lane, std::shared_ptr<const JobSpec> spec, comm::Channel& channel)
    : lane_(lane), spec_(std::move(spec)), channel_(&channel) {}

Lane::~Lane() = default;

LaneLink Lane::link(std::uint64_t generation, std::uint64_t run, std::int64_t deadline_ms) const {
  return {*channel_, lane_, generation, run, comm::Clock::now() + std::chrono::milliseconds(deadline_ms)};
}

LaneReport Lane::run(const RunStep& message) {
  LaneReport report;
  report.began_ns = now_ns();
  report.lane = lane_;
  report.generation = message.generation;
  report.run = message.run;
  try {
    channel_.load()->set_generation(message.generation);
    if (!refusal_.empty()) throw std::runtime_error(refusal_);
    if (!program_ || program_->plan.plan_digest != message.plan_digest)
      throw Error(name(), "was asked to run a plan that it does not have");
    if (message.mode == RunMode::train && !program_->plan.training)
      throw Error(name(), "was asked to train by a plan for evaluation");
    walk(message, link(message.generation, message.run, message.deadline_ms), report);
  } catch (const Aborted& abort) {
    report.end = RunEnd::aborted;
    report.cause = abort.what();
  } catch (const std::exception& error) {
    report.end = RunEnd::failed;
    report.cause = plain(error);
  }
  at_ = -1;
  if (dispatch_) {
    report.loss_sums.insert(dispatch_->loss_sums().begin(), dispatch_->loss_sums().end());
    report.in_flight = dispatch_->in_flight_peaks();
    if (report.end != RunEnd::done) dispatch_->clear();
  }
  report.ended_ns = now_ns();
  return report;
}

void Lane::walk(const RunStep& message, const LaneLink& link, LaneReport& report) {
  const bool train = message.mode == RunMode::train;
  if (train && version_ + 1 != message.step)
    throw Error(name(), "was asked for step " + std::to_string(message.step) + " with parameters of step " +
                            std::to_string(version_));
  const modules::StepBatch batch =
      train ? make_step_batch(spec_->model, *spec_->dataset, spec_->schedule, spec_->seed, message.step)
            : make_evaluation_batch(*spec_->dataset, spec_->schedule, message.samples);
  const modules::StepCounts counts = modules::step_counts(spec_->model, batch);
  if (train) here_.optimizer->zero_gradients();
  times_.assign(program_->instructions.size(), {});
  dispatch_->begin(link, batch, counts.scales, message.mode, times_);
  scheduler::RowDigest digest;
  std::int64_t now = now_ns();
  for (std::size_t i = 0; i < program_->instructions.size(); ++i) {
    const Instruction& instruction = program_->instructions[i];
    if (aborted_.load(std::memory_order_relaxed) >= message.generation) throw Aborted("the step was aborted");
    at_.store(static_cast<std::int64_t>(i), std::memory_order_relaxed);
    OpTime& time = times_[i];
    time.start_ns = now;
    try {
      if (instruction.op.kind == OpKind::reduce) {
        if (train) reduce(link, instruction.op, time);
      } else if (instruction.op.kind == OpKind::update) {
        if (train) update(link, message.step, report, time);
      } else {
        dispatch_->run(instruction, time);
      }
    } catch (const Aborted&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(name(), describe(instruction.op, program_->plan) + ": " + plain(error));
    }
    now = time.end_ns = now_ns();
    digest.add(instruction.op);
  }
  report.row_digest = digest.value();
  if (train) version_ = message.step;  // also where there was nothing to update
  for (OpTime& time : times_) {
    time.start_ns -= message.origin_ns;
    time.end_ns -= message.origin_ns;
  }
  report.times = times_;
}

void Lane::reduce(const LaneLink& link, const scheduler::Operator& op, OpTime& time) {
  const auto index = static_cast<std::size_t>(op.reduction);
  std::vector<std::int32_t> lanes;
  for (scheduler::LaneId lane : program_->plan.reductions[index].lanes) lanes.push_back(lane.value);
  reduce_gradients(link, lanes, op.reduction, reductions_[index], time);
}

void Lane::update(const LaneLink& link, std::int64_t step, LaneReport& report, OpTime& time) {
  const double partial = here_.optimizer->gradient_square_sum(here_.counted);
  report.prepared = true;
  const auto decision =
      modules::decide_update(sum_over_lanes(link, program_->plan.updating, partial, time), spec_->optimizer.clip);
  report.grad_norm = decision.norm;
  report.update_scale = decision.skip ? 0 : decision.scale;
  if (!decision.skip) here_.optimizer->update(step, decision.scale);
  version_ = step;
  report.updated = true;
}

void Lane::resolve(const Resolve& message) {
  channel_.load()->set_generation(message.generation);
  if (!here_.optimizer) return;
  if (!message.finish_update) {
    here_.optimizer->zero_gradients();
  } else if (version_ < message.step && message.update_scale != 0) {
    here_.optimizer->update(message.step, message.update_scale);
  }
  version_ = message.version;
}

void Lane::abort(std::uint64_t generation, const std::string& cause) {
  std::uint64_t before = aborted_.load();
  while (before < generation && !aborted_.compare_exchange_weak(before, generation)) {
  }
  channel_.load()->abort(generation, cause);
}

std::string Lane::doing() const {
  std::lock_guard lock(program_mutex_);
  const std::int64_t at = at_;
  if (!program_ || at < 0 || at >= static_cast<std::int64_t>(program_->instructions.size())) return {};
  return describe(program_->instructions[static_cast<std::size_t>(at)].op, program_->plan);
}

}  // namespace nestor::actors
