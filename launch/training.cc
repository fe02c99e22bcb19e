#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/actors/job.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/metrics.h>
#include <nestor/launch/report/markup.h>
#include <nestor/launch/report/samples.h>
#include <nestor/launch/training.h>
#include <nestor/launch/training_set.h>
#include <nestor/modules/suggest.h>
#include <nestor/modules/train/checkpoint.h>

namespace nestor::launch {
namespace {

std::string describe(const actors::ScheduleOptions& schedule) {
  auto plural = [](std::int64_t n, const char* word, const char* ending = "s") {
    return fmt::format("{} {}{}", n, word, n == 1 ? "" : ending);
  };
  auto batch = fmt::format("{} of {}", plural(schedule.microbatches, "microbatch", "es"),
                           plural(schedule.microbatch_size, "sample"));
  if (schedule.policy == "serial") return "Serial reference: one process, no lanes; " + batch + " a step.";
  std::string text = fmt::format("Policy {}, {}, {} per lane; {} a step", schedule.policy,
                                 plural(schedule.stages, "pipeline stage"), plural(schedule.chunks, "chunk"), batch);
  for (const auto& [name, lanes] : schedule.pools)
    text += fmt::format("; {} on {} {}", name, lanes.size() == 1 ? "lane" : "lanes", fmt::join(lanes, ", "));
  return text + ".";
}

double weighted_total(const modules::Model& model, const std::map<std::string, double>& losses) {
  double total = 0;
  auto add = [&](const std::string& name, double weight) {
    if (auto found = losses.find(name); found != losses.end()) total += weight * found->second;
  };
  for (const auto& loss : model.losses()) add(loss.name, loss.weight);
  for (const auto& node : model.nodes())
    if (node.kind == modules::Model::Kind::generator) add(node.name, node.weight);
  return total;
}

std::string losses_text(double total, const std::map<std::string, double>& losses) {
  auto text = "loss " + short_number(total);
  if (losses.size() > 1)
    for (const auto& [name, loss] : losses) text += "  " + name + " " + short_number(loss);
  return text;
}

/// `work` with what an actor met in bad input (a stage too many, a checkpoint of another model) thrown as itself.
template <class Work>
auto unwrapped(Work work) {
  try {
    return work();
  } catch (const actors::CallFailed& failed) {
    if (failed.cause()) std::rethrow_exception(failed.cause());
    throw;
  }
}

/// A training from its first step to its last, and what it leaves in the folder.
class Training final : public StandingTraining {
 public:
  Training(TrainConfig& config, const TrainingSet& set, const actors::JobSpec& spec, std::unique_ptr<actors::Job> job,
           const RunFolder& folder, TrainingHost& host)
      : config_(config),
        set_(set),
        spec_(spec),
        job_(std::move(job)),
        folder_(folder),
        host_(host),
        stops_(host.stops()),
        schedule_(spec.schedule) {
    start_from_here();
    if (saved_ > 0) earlier_trace();
  }

  void run() {
    stops_.on_first([this] { host_.say("finishing the step, then saving; once more aborts the step"); });
    stops_.on_second([this] { abort_step(); });
    std::exception_ptr failure = steps();
    while (failure && stops_.count() < 2 && recovers(failure)) {
      drop_job();
      failure = steps();
    }
    stops_.on_second({});
    host_.finish();
    if (!failure) return;
    try {
      save();  // parameters are those before the failed step
    } catch (const actors::Error&) {
      // A lane is gone: the last checkpoint stands.
    }
    if (stops_.count() < 2) std::rethrow_exception(failure);
  }

  std::int64_t steps_done() const { return job_ ? job_->steps_done() : saved_; }

  void finish(const std::string& description) {
    write_plan();
    ReportData data;
    data.title = folder_.path().filename().string();
    data.description = description;
    data.steps_planned = config_.run.steps;
    data.metrics = metrics_->after(0);
    data.plan = traced_plan_ || !job_ ? traced_plan_ : job_->plan();
    data.measured = traced_;
    data.config = write_config(config_);
    try {
      samples(data);
    } catch (const std::exception& error) {
      // A model of the user's own may not be one to read or draw with; its figures still make a page.
      host_.say("nestor: report.html: no samples: " + one_line(error.what()));
    }
    write_aside(folder_.file("report.html"), write_report(data));
  }

  std::int64_t saved() const { return saved_; }

  actors::Job& job() override { return *job_; }
  const modules::Model& model() const override { return set_.model; }
  const TrainConfig& config() const override { return config_; }
  std::vector<StepMetrics> metrics_after(std::int64_t step) const override { return metrics_->after(step); }
  bool failed() const override { return failure_ != nullptr; }

  void set(const std::string& assignment) override {
    const std::string key = assignment.substr(0, assignment.find('='));
    static const std::vector<std::string> changeable{
        "run.steps",        "run.checkpoint_every", "run.keep_checkpoints", "run.eval_every",
        "run.eval_samples", "run.trace_every",      "run.report_samples"};
    if (std::find(changeable.begin(), changeable.end(), key) == changeable.end())
      throw InputError("set " + one_line(key, 60), "cannot be changed while it trains",
                       modules::did_you_mean(key, changeable));
    TrainConfig changed = read_config(write_config(config_), config_.source, {assignment});
    if (changed.run.steps < job_->steps_done())
      throw InputError("set " + key, fmt::format("{} steps are done already", job_->steps_done()));
    config_.run = changed.run;
    write_aside(folder_.file("config.yaml"), write_config(config_));
  }

  std::filesystem::path checkpoint() override {
    if (job_->steps_done() == 0) throw WorkError("checkpoint", "no step is done yet", "step");
    save();
    return folder_.checkpoint(saved_);
  }

  const scheduler::Timeline& traced_step() override {
    if (config_.schedule.policy == "serial") throw InputError("trace", "policy serial has no lanes to trace");
    if (job_->steps_done() >= config_.run.steps)
      throw InputError("trace", "there is no further step", "set run.steps=N for more");
    try {
      step(true);
    } catch (const actors::Error&) {
      failure_ = std::current_exception();
      throw;
    }
    return *traced_;
  }

 private:
  bool due(std::int64_t step, std::int64_t every) const {
    return every > 0 && (step % every == 0 || step == config_.run.steps);
  }

  void start_from_here() {
    last_step_ = saved_ = job_->steps_done();
    metrics_.emplace(folder_.file("metrics.jsonl"), saved_);
  }

  /// Runs and saves what is left to do. What failed, or null.
  std::exception_ptr steps() {
    try {
      if (!job_) go_back();
      host_.begin(config_.run.steps, job_->steps_done());
      for (;;) {
        host_.between_steps(*this);
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        if (job_->steps_done() >= config_.run.steps || stops_.requested()) break;
        step(false);
      }
      save();
      return nullptr;
    } catch (const actors::Error&) {
      return std::current_exception();
    }
  }

  bool recovers(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const actors::Error& error) {
      return host_.recover(error, last_step_);
    }
  }

  void drop_job() {
    if (job_) schedule_ = job_->schedule();
    std::unique_ptr<actors::Job> gone;
    std::lock_guard lock(job_mutex_);
    gone.swap(job_);
  }

  /// The job anew, from the last checkpoint, or from the start where there is none, on the schedule that it had.
  void go_back() {
    auto spec = spec_;
    spec.schedule = schedule_;
    auto job = host_.make_job(spec);
    if (auto newest = modules::newest_checkpoint(folder_.file("checkpoints"))) job->load(*newest);
    {
      std::lock_guard lock(job_mutex_);
      job_ = std::move(job);
    }
    start_from_here();
    host_.say(fmt::format("going on after step {}", saved_));
  }

  void abort_step() {
    std::lock_guard lock(job_mutex_);
    if (job_) job_->request_abort("interrupted twice");
  }

  void step(bool traced) {
    auto number = job_->steps_done() + 1;
    bool early = number == std::min<std::int64_t>(2, config_.run.steps);  // one soon, whenever the run ends
    bool trace = traced || (config_.run.trace_every > 0 && (early || due(number, config_.run.trace_every)));
    StepMetrics line;
    line.report = job_->step(trace);
    const auto& report = line.report;
    if (report.timeline) keep_trace(*report.timeline);
    if (due(number, config_.run.eval_every) && set_.dataset->size(modules::Split::held_out) > 0) {
      Evaluation eval;
      eval.losses = job_->evaluate(config_.run.eval_samples);
      eval.loss = weighted_total(set_.model, eval.losses);
      host_.say(fmt::format("step {}: held out {}", number, losses_text(eval.loss, eval.losses)));
      line.eval = std::move(eval);
    }
    if (report.skipped) host_.say(fmt::format("step {}: update skipped, the gradient norm is not finite", number));
    auto detail = losses_text(report.loss, report.losses);
    if (report.seconds > 0)
      detail += fmt::format("  {} samples/s", short_number(static_cast<double>(report.samples) / report.seconds));
    if (config_.schedule.policy != "serial") detail += fmt::format("  bubble {:.0f}%", report.bubble * 100);
    host_.update(number, detail, report);
    metrics_->append(std::move(line));
    last_step_ = number;
    if (due(number, config_.run.checkpoint_every)) save();
  }

  void save() {
    if (!job_) return;
    auto step = job_->steps_done();
    if (step == saved_) return;
    try {
      job_->save(folder_.checkpoint(step));
    } catch (const modules::Error& error) {  // nothing of the user's was wrong: the disk is full, say
      throw WorkError("checkpoint", error.what());
    } catch (const actors::Error&) {  // a lane elsewhere failed: nobody will finish what is half there
      std::error_code ignored;
      std::filesystem::remove_all(folder_.checkpoint(step).string() + ".partial", ignored);
      throw;
    }
    saved_ = step;
    folder_.prune_checkpoints(config_.run.keep_checkpoints);
  }

  /// A resumed run that ends before its next traced step still shows the last one.
  void earlier_trace() {
    auto timeline = folder_.file("timeline.json"), plan = folder_.file("plan.json");
    if (!std::filesystem::exists(timeline) || !std::filesystem::exists(plan)) return;
    try {
      auto read = scheduler::read_timeline(read_text(timeline), timeline.string());
      traced_plan_ = std::make_shared<scheduler::Plan>(scheduler::read_plan(read_text(plan), plan.string()));
      traced_ = std::move(read);
    } catch (const scheduler::Error& error) {
      host_.say(fmt::format("not shown in the report: {}", one_line(error.what())));
    }
  }

  void keep_trace(const scheduler::Timeline& timeline) {
    traced_ = timeline;
    traced_plan_ = job_->plan();
    write_aside(folder_.file("timeline.json"), scheduler::write_timeline(timeline));
    write_aside(folder_.file("trace.json"), scheduler::write_trace(timeline));
    write_plan();
  }

  void write_plan() {
    if (!job_) return;
    if (auto plan = job_->plan()) write_aside(folder_.file("plan.json"), scheduler::write_plan(*plan));
  }

  void samples(ReportData& data) {
    if (config_.run.report_samples == 0 || !job_) return;
    auto limit = stops_.requested() ? 1 : 0;  // one more signal ends this too
    auto stop = [this, limit] { return stops_.count() > limit; };
    modules::PartOptions options;
    options.dtype = config_.run.dtype;
    options.seed = modules::Seed(config_.run.seed);
    auto parameters = job_->parameters();
    Sampling sampling(set_, options, {parameters.begin(), parameters.end()});
    add_samples(data, set_, sampling, config_.run.report_samples, stop);
  }

  TrainConfig& config_;
  const TrainingSet& set_;
  const actors::JobSpec& spec_;
  std::mutex job_mutex_;  ///< a request to abort may come while the job is replaced
  std::unique_ptr<actors::Job> job_;
  const RunFolder& folder_;
  TrainingHost& host_;
  StopSource& stops_;
  std::optional<MetricsFile> metrics_;
  std::int64_t saved_ = 0, last_step_ = 0;
  std::exception_ptr failure_;        ///< of a step that was taken between steps
  actors::ScheduleOptions schedule_;  ///< of the job before this one
  std::optional<scheduler::Timeline> traced_;
  std::shared_ptr<const scheduler::Plan> traced_plan_;
};

}  // namespace

int train(TrainConfig config, const ModelBuilder& build, RunFolder::Open how, TrainingHost& host) {
  RunFolder::check(config.run.dir, how);
  bool resume = how == RunFolder::Open::resume;
  auto vocabulary = config.run.dir / "vocabulary.json";
  auto set = load_training_set(config, build, resume && std::filesystem::exists(vocabulary) ? vocabulary : "");

  const actors::JobSpec spec{set.model,       set.dataset,      config.schedule,         config.optimizer,
                             config.run.seed, config.run.dtype, config.run.step_deadline};
  std::unique_ptr<actors::Job> job;
  try {
    job = unwrapped([&] { return host.make_job(spec); });
  } catch (const actors::Error& error) {  // nothing has run yet: the config asks for what cannot be
    throw InputError(config.source, error.what());
  }
  if (host.stops().requested()) return 128 + host.stops().requested();

  RunFolder folder(config.run.dir, how);
  if (resume) {
    auto newest = modules::newest_checkpoint(folder.file("checkpoints"));
    if (!newest) throw InputError(config.run.dir.string(), "has no whole checkpoint", "start anew with --overwrite");
    unwrapped([&] { job->load(*newest); });
    host.say(fmt::format("going on from {}", newest->string()));
  }
  write_aside(folder.file("config.yaml"), write_config(config));
  if (set.tokenizer) set.tokenizer->save(folder.file("vocabulary.json"));

  auto description = describe(config.schedule);
  host.say(fmt::format("{}: {} steps. {}", folder.path().string(), config.run.steps, description));
  Training training(config, set, spec, std::move(job), folder, host);
  training.run();
  const std::int64_t done = training.steps_done();
  bool stopped = host.stops().requested() && done < config.run.steps;
  training.finish(description);
  if (training.saved() > 0) host.say(fmt::format("saved {}", folder.checkpoint(training.saved()).string()));
  host.say(fmt::format("report {}", folder.file("report.html").string()));
  if (!stopped) return 0;
  host.say(fmt::format("stopped after step {} of {}; {}", done, config.run.steps,
                       training.saved() > 0 ? "to go on: the same command with --resume"
                                            : "nothing is saved: start anew with --overwrite"));
  return 128 + host.stops().requested();
}

}  // namespace nestor::launch
