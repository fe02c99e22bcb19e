#include <algorithm>

#include <nestor/actors/batch_plan.h>
#include <nestor/actors/error.h>
#include <nestor/actors/lane_link.h>
#include <nestor/actors/scheduler_actor.h>
#include <nestor/actors/step_report.h>

namespace nestor::actors {
namespace {

using namespace std::chrono_literals;

/// How long lanes may take to answer after an abort before they are given up: an operator's run, generously.
constexpr std::chrono::nanoseconds kAbortLimit = 30s;
/// Lanes end their own waits at the deadline; this is for one that still computes then.
constexpr std::chrono::nanoseconds kDeadlineSlack = 500ms;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "something that is no exception";
  }
}

/// "lane1: what" names the actor itself.
std::exception_ptr error_of(const std::string& cause) {
  const auto colon = cause.find(": ");
  if (cause.rfind("lane", 0) == 0 && colon != std::string::npos)
    return std::make_exception_ptr(Error(cause.substr(0, colon), cause.substr(colon + 2)));
  return std::make_exception_ptr(Error("scheduler", cause));
}

template <class R>
std::string failure_of(Future<R>& future) {
  try {
    future.get();
    return {};
  } catch (...) {
    return text_of(std::current_exception());
  }
}

bool same_places(const std::vector<Placement>& a, const std::vector<Placement>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Placement& x, const Placement& y) { return x.same_place(y); });
}

}  // namespace

SchedulerActor::SchedulerActor(std::shared_ptr<const JobSpec> spec, std::shared_ptr<LaneSource> lanes)
    : spec_(std::move(spec)),
      lanes_(std::move(lanes)),
      schedule_(spec_->schedule),
      generation_(lanes_->first_generation()) {}

void SchedulerActor::require_idle() const {
  if (phase_ == Phase::broken)
    throw Error("scheduler", "the job cannot go on: " + broken_because_, "start it again from its last checkpoint");
  if (phase_ != Phase::idle)
    throw Error("scheduler", "is " + std::string(to_string(phase_)) + " already", "one request at a time");
}

template <class R, class Prepare>
Future<R> SchedulerActor::begin(Prepare prepare) {
  auto promise = std::make_shared<Promise<R>>();
  auto future = promise->future();
  const bool was_busy = phase_ != Phase::idle;
  try {
    require_idle();
    Work work;
    work.failed = [promise](std::exception_ptr error) { promise->fail(std::move(error)); };
    if (!prepare(work, promise)) return future;
    const bool move = !same_places(placements_, work.prepared->placements);
    work_ = std::move(work);
    ++work_id_;
    if (move) {
      place();
    } else if (work_->run) {
      send_rows();
    } else {
      finish(nullptr);
    }
  } catch (...) {
    if (phase_ != Phase::idle && phase_ != Phase::broken && !was_busy) {
      broken_because_ = text_of(std::current_exception());  // some lanes have been asked and others not
      phase_ = Phase::broken;
    }
    if (!was_busy) work_.reset();
    promise->fail(std::current_exception());
  }
  return future;
}

Future<void> SchedulerActor::start() {
  return begin<void>([this](Work& work, const auto& promise) {
    const auto batch = make_step_batch(spec_->model, *spec_->dataset, schedule_, spec_->seed, version_ + 1);
    planner_ = std::make_unique<StepPlanner>(spec_, batch);
    work.prepared = planner_->prepare(schedule_, batch, false);
    work.done = [promise] { promise->set_value(); };
    return true;
  });
}

Future<StepReport> SchedulerActor::step(bool trace) {
  return begin<StepReport>([&](Work& work, const auto& promise) {
    const std::int64_t began = now_ns();
    const auto batch = make_step_batch(spec_->model, *spec_->dataset, schedule_, spec_->seed, version_ + 1);
    work.prepared = planner_->prepare(schedule_, batch, false);
    work.run.emplace();
    work.run->step = version_ + 1;
    work.run->trace = trace;
    const auto counts = modules::step_counts(spec_->model, batch);
    work.done = [this, promise, counts, began, trace] {
      const Work& done = *work_;
      StepReport report = make_step_report(spec_->model, counts, *done.prepared, done.reports, done.run->step, trace);
      version_ = done.run->step;
      last_plan_ = done.prepared->plan;
      planner_->add_measured(*done.prepared, done.reports);
      report.seconds = 1e-9 * static_cast<double>(now_ns() - began);
      promise->set_value(std::move(report));
    };
    return true;
  });
}

Future<std::map<std::string, double>> SchedulerActor::evaluate(std::int64_t samples) {
  using Losses = std::map<std::string, double>;
  return begin<Losses>([&](Work& work, const auto& promise) {
    const auto batch = make_evaluation_batch(*spec_->dataset, schedule_, samples);
    if (batch.microbatches.empty()) {
      promise->set_value(Losses{});
      return false;
    }
    work.prepared = planner_->prepare(schedule_, batch, true);
    work.run.emplace();
    work.run->step = version_;
    work.run->mode = RunMode::evaluate;
    work.run->samples = samples;
    const auto counts = modules::step_counts(spec_->model, batch);
    work.done = [this, promise, counts] {
      const auto means = modules::loss_means(spec_->model, counts, total_losses(work_->reports));
      promise->set_value(Losses(means.losses.begin(), means.losses.end()));
    };
    return true;
  });
}

Future<void> SchedulerActor::reconfigure(ScheduleOptions schedule) {
  return begin<void>([&](Work& work, const auto& promise) {
    const auto batch = make_step_batch(spec_->model, *spec_->dataset, schedule, spec_->seed, version_ + 1);
    work.prepared = planner_->prepare(schedule, batch, false);
    work.done = [this, promise, schedule] {
      schedule_ = schedule;
      promise->set_value();
    };
    return true;
  });
}

void SchedulerActor::place() {
  Work& work = *work_;
  executors_ = lanes_->lanes(static_cast<std::int32_t>(std::max(work.prepared->placements.size(), placements_.size())));
  go(PhaseEvent::place);
  work.placements = work.prepared->placements;
  const auto count = static_cast<std::int32_t>(work.placements.size());
  // Lanes that are to go hand over what they have first.
  for (std::size_t lane = work.placements.size(); lane < placements_.size(); ++lane) {
    Placement& leaving = work.placements.emplace_back();
    leaving.lane = static_cast<std::int32_t>(lane);
    leaving.lanes = count;
  }
  add_handovers(placements_, work.placements);
  ++generation_;
  ++run_;
  expect_answers(executors_.size(), spec_->step_deadline);
  for (std::size_t lane = 0; lane < executors_.size(); ++lane) {
    Placement& placement = work.placements[lane];
    placement.generation = generation_;
    placement.run = run_;
    placement.version = version_;
    placement.deadline_ms = spec_->step_deadline.count();
    when_done(executors_[lane].call(&Executor::stage, placement),
              [lane](SchedulerActor& me, Future<void>& done) { me.placed(lane, failure_of(done)); });
  }
}

void SchedulerActor::placed(std::size_t lane, const std::string& failure) {
  const bool all = all_answered(lane);
  if (!failure.empty() && phase_ == Phase::placing) fail(failure);
  if (!all) return;
  if (phase_ == Phase::draining) return drained();
  for (auto& executor : executors_) executor.call(&Executor::settle, true);
  work_->placements.resize(work_->prepared->placements.size());
  placements_ = work_->placements;
  installed_ = 0;
  executors_ = lanes_->lanes(static_cast<std::int32_t>(placements_.size()));
  if (work_->run) return send_rows();
  go(PhaseEvent::placed);
  finish(nullptr);
}

void SchedulerActor::send_rows() {
  go(PhaseEvent::run);
  Work& work = *work_;
  RunStep& message = *work.run;
  message.generation = generation_;
  message.run = ++run_;
  message.plan_digest = work.prepared->digest;
  message.deadline_ms = spec_->step_deadline.count();
  message.origin_ns = now_ns();
  work.reports.assign(executors_.size(), {});
  clocks_.resize(executors_.size());
  expect_answers(executors_.size(), spec_->step_deadline + kDeadlineSlack);
  for (std::size_t lane = 0; lane < executors_.size(); ++lane) {
    if (installed_ != message.plan_digest) executors_[lane].call(&Executor::install, work.prepared->rows[lane]);
    when_done(executors_[lane].call(&Executor::run, message), [lane](SchedulerActor& me, Future<LaneReport>& done) {
      LaneReport report;
      try {
        report = done.get();
      } catch (...) {  // the executor died
        report.end = RunEnd::failed;
        report.cause = "lane" + std::to_string(lane) + ": " + text_of(std::current_exception());
      }
      me.lane_done(lane, std::move(report));
    });
  }
  installed_ = message.plan_digest;
}

void SchedulerActor::lane_done(std::size_t lane, LaneReport report) {
  const bool failed = report.end != RunEnd::done;
  const std::string cause = report.cause;
  if (report.ended_ns != 0) {
    PeerClock& clock = clocks_[lane];
    clock.heard(work_->run->origin_ns, report.began_ns, report.ended_ns, now_ns());
    for (OpTime& time : report.times) {
      time.start_ns -= clock.ahead();
      time.end_ns -= clock.ahead();
    }
  }
  work_->reports[lane] = std::move(report);
  const bool all = all_answered(lane);
  if (failed && phase_ == Phase::running) fail(cause);
  if (!all) return;
  if (phase_ == Phase::draining) return drained();
  for (std::size_t l = 0; l < work_->reports.size(); ++l)
    if (work_->reports[l].row_digest != work_->prepared->rows[l].row_digest)
      return break_down("lane" + std::to_string(l) + ": ran other operators than the plan has, or another order");
  go(PhaseEvent::finished);
  finish(nullptr);
}

void SchedulerActor::abort(std::string cause) {
  if (phase_ == Phase::placing || phase_ == Phase::running) fail("aborted: " + cause);
}

void SchedulerActor::fail(const std::string& cause) {
  go(PhaseEvent::failed);
  work_->cause = cause;
  for (auto& executor : executors_) executor.call(&Executor::abort, generation_, cause);
  work_->deadline_ns = now_ns() + kAbortLimit.count();
  look_after(work_id_);
}

void SchedulerActor::drained() {
  go(PhaseEvent::drained);
  ++generation_;
  installed_ = 0;
  Work& work = *work_;
  Resolve message{generation_, work.run ? work.run->step : 0, version_, false, 0};
  for (const LaneReport& report : work.reports) {
    if (!report.updated) continue;
    message.finish_update = work.finish_update = true;
    message.version = message.step;
    message.update_scale = report.update_scale;
  }
  expect_answers(executors_.size(), kAbortLimit);
  for (std::size_t lane = 0; lane < executors_.size(); ++lane) {
    executors_[lane].call(&Executor::settle, false);
    when_done(executors_[lane].call(&Executor::resolve, message),
              [lane](SchedulerActor& me, Future<void>& done) { me.resolved(lane, failure_of(done)); });
  }
}

void SchedulerActor::resolved(std::size_t lane, const std::string& failure) {
  if (!failure.empty()) return break_down(failure);
  if (!all_answered(lane)) return;
  go(PhaseEvent::resolved);
  if (static_cast<std::size_t>(executors_.size()) != placements_.size())
    executors_ = lanes_->lanes(std::max<std::int32_t>(1, static_cast<std::int32_t>(placements_.size())));
  finish(work_->finish_update ? nullptr : error_of(work_->cause));
}

void SchedulerActor::break_down(const std::string& why) {
  go(PhaseEvent::gave_up);
  broken_because_ = why;
  finish(error_of(why));
}

void SchedulerActor::finish(std::exception_ptr error) {
  if (error) {
    work_->failed(error);
  } else {
    work_->done();
  }
  work_.reset();
}

void SchedulerActor::expect_answers(std::size_t lanes, std::chrono::nanoseconds limit) {
  work_->answered.assign(lanes, false);
  work_->deadline_ns = now_ns() + limit.count();
  look_after(work_id_);
}

bool SchedulerActor::all_answered(std::size_t lane) {
  work_->answered[lane] = true;
  return std::all_of(work_->answered.begin(), work_->answered.end(), [](bool answered) { return answered; });
}

/// The one timer: checks the work's deadline, and comes again while there is work.
void SchedulerActor::look_after(std::uint64_t id) {
  if (!work_ || id != work_id_) return;
  const std::int64_t now = now_ns();
  if (timer_ns_ != 0 && timer_ns_ <= now) timer_ns_ = 0;
  if (now >= work_->deadline_ns) {
    if (phase_ == Phase::placing || phase_ == Phase::running)
      return fail("the step's deadline passed: " + silent_lanes());
    return break_down("no answer from " + silent_lanes());
  }
  if (timer_ns_ != 0 && timer_ns_ <= work_->deadline_ns) return;
  timer_ns_ = work_->deadline_ns;
  self(this).run_after(std::chrono::nanoseconds(work_->deadline_ns - now), [](SchedulerActor& me) {
    me.timer_ns_ = 0;
    me.look_after(me.work_id_);
  });
}

std::string SchedulerActor::silent_lanes() {
  std::string lanes;
  for (std::size_t lane = 0; lane < work_->answered.size(); ++lane) {
    if (work_->answered[lane]) continue;
    std::string doing;
    try {
      doing = executors_[lane].call(&Executor::status).get_for(1s).doing;
    } catch (const Error&) {
      doing = "its executor does not answer";
    }
    lanes.append(lanes.empty() ? "" : ", ").append(executors_[lane].name());
    lanes.append(doing.empty() ? " (between operators)" : " (" + doing + ")");
  }
  return lanes;
}

void SchedulerActor::set_steps_done(std::int64_t steps) {
  require_idle();
  version_ = steps;
}

std::vector<Handle<Executor>> SchedulerActor::lanes() const {
  require_idle();
  return executors_;
}

template <class R, class Then>
void SchedulerActor::when_done(Future<R> future, Then then) {
  auto held = std::make_shared<Future<R>>(std::move(future));
  held->on_ready([held, then, me = self(this), id = work_id_] {
    me.run([held, then, id](SchedulerActor& actor) {
      if (actor.work_ && actor.work_id_ == id) then(actor, *held);
    });
  });
}

}  // namespace nestor::actors
