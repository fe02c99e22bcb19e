#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <nestor/actors/error.h>
#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>
#include <nestor/launch/interrupts.h>
#include <nestor/launch/metrics.h>
#include <nestor/launch/progress.h>
#include <nestor/launch/report/markup.h>
#include <nestor/launch/report/samples.h>
#include <nestor/launch/training.h>
#include <nestor/launch/training_set.h>
#include <nestor/modules/train/checkpoint.h>

namespace nestor::launch {
namespace {

void say(const std::string& line) {
  fmt::print(stderr, "{}\n", line);
}

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
class Training {
 public:
  Training(const TrainConfig& config, const TrainingSet& set, actors::Job& job, const RunFolder& folder,
           Interrupts& interrupts)
      : config_(config),
        set_(set),
        job_(job),
        folder_(folder),
        interrupts_(interrupts),
        metrics_(folder.file("metrics.jsonl"), job.steps_done()),
        saved_(job.steps_done()) {
    if (saved_ > 0) earlier_trace();
  }

  void run() {
    Progress progress("step", config_.run.steps, job_.steps_done());
    interrupts_.on_first([] { say("\nfinishing the step, then saving; once more aborts the step"); });
    interrupts_.on_second([this] { job_.request_abort("interrupted twice"); });
    try {
      while (job_.steps_done() < config_.run.steps && !interrupts_.requested()) step(progress);
    } catch (const actors::Error&) {
      interrupts_.on_second({});
      progress.finish();
      save();  // parameters are those before the failed step
      if (interrupts_.count() < 2) throw;
    }
    interrupts_.on_second({});
    progress.finish();
    save();
  }

  void finish(const std::string& description) {
    write_plan();
    ReportData data;
    data.title = folder_.path().filename().string();
    data.description = description;
    data.steps_planned = config_.run.steps;
    data.metrics = metrics_.all();
    data.plan = traced_plan_ ? traced_plan_ : job_.plan();
    data.measured = traced_;
    data.config = write_config(config_);
    try {
      samples(data);
    } catch (const std::exception& error) {
      // A model of the user's own may not be one to read or draw with; its figures still make a page.
      say("nestor: report.html: no samples: " + one_line(error.what()));
    }
    write_aside(folder_.file("report.html"), write_report(data));
  }

  std::int64_t saved() const { return saved_; }

 private:
  bool due(std::int64_t step, std::int64_t every) const {
    return every > 0 && (step % every == 0 || step == config_.run.steps);
  }

  void step(Progress& progress) {
    auto number = job_.steps_done() + 1;
    bool early = number == std::min<std::int64_t>(2, config_.run.steps);  // one soon, whenever the run ends
    bool trace = config_.run.trace_every > 0 && (early || due(number, config_.run.trace_every));
    StepMetrics line;
    line.report = job_.step(trace);
    const auto& report = line.report;
    if (report.timeline) keep_trace(*report.timeline);
    if (due(number, config_.run.eval_every) && set_.dataset->size(modules::Split::held_out) > 0) {
      Evaluation eval;
      eval.losses = job_.evaluate(config_.run.eval_samples);
      eval.loss = weighted_total(set_.model, eval.losses);
      progress.note(fmt::format("step {}: held out {}", number, losses_text(eval.loss, eval.losses)));
      line.eval = std::move(eval);
    }
    if (report.skipped) progress.note(fmt::format("step {}: update skipped, the gradient norm is not finite", number));
    auto detail = losses_text(report.loss, report.losses);
    if (report.seconds > 0)
      detail += fmt::format("  {} samples/s", short_number(static_cast<double>(report.samples) / report.seconds));
    if (config_.schedule.policy != "serial") detail += fmt::format("  bubble {:.0f}%", report.bubble * 100);
    metrics_.append(std::move(line));
    progress.update(number, detail);
    if (due(number, config_.run.checkpoint_every)) save();
  }

  void save() {
    auto step = job_.steps_done();
    if (step == saved_) return;
    try {
      job_.save(folder_.checkpoint(step));
    } catch (const modules::Error& error) {  // nothing of the user's was wrong: the disk is full, say
      throw WorkError("checkpoint", error.what());
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
      say(fmt::format("not shown in the report: {}", one_line(error.what())));
    }
  }

  void keep_trace(const scheduler::Timeline& timeline) {
    traced_ = timeline;
    traced_plan_ = job_.plan();
    write_aside(folder_.file("timeline.json"), scheduler::write_timeline(timeline));
    write_aside(folder_.file("trace.json"), scheduler::write_trace(timeline));
    write_plan();
  }

  void write_plan() {
    if (auto plan = job_.plan()) write_aside(folder_.file("plan.json"), scheduler::write_plan(*plan));
  }

  void samples(ReportData& data) {
    if (config_.run.report_samples == 0) return;
    auto limit = interrupts_.requested() ? 1 : 0;  // one more signal ends this too
    auto stop = [this, limit] { return interrupts_.count() > limit; };
    modules::PartOptions options;
    options.dtype = config_.run.dtype;
    options.seed = modules::Seed(config_.run.seed);
    auto parameters = job_.parameters();
    Sampling sampling(set_, options, {parameters.begin(), parameters.end()});
    add_samples(data, set_, sampling, config_.run.report_samples, stop);
  }

  const TrainConfig& config_;
  const TrainingSet& set_;
  actors::Job& job_;
  const RunFolder& folder_;
  Interrupts& interrupts_;
  MetricsFile metrics_;
  std::int64_t saved_;
  std::optional<scheduler::Timeline> traced_;
  std::shared_ptr<const scheduler::Plan> traced_plan_;
};

}  // namespace

int train(TrainConfig config, const ModelBuilder& build, RunFolder::Open how) {
  Interrupts interrupts;
  RunFolder::check(config.run.dir, how);
  bool resume = how == RunFolder::Open::resume;
  auto vocabulary = config.run.dir / "vocabulary.json";
  auto set = load_training_set(config, build, resume && std::filesystem::exists(vocabulary) ? vocabulary : "");

  actors::Runtime runtime;
  actors::JobSpec spec{set.model,       set.dataset,      config.schedule,         config.optimizer,
                       config.run.seed, config.run.dtype, config.run.step_deadline};
  std::unique_ptr<actors::Job> job;
  try {
    job = unwrapped([&] { return actors::make_job(runtime, std::move(spec)); });
  } catch (const actors::Error& error) {  // nothing has run yet: the config asks for what cannot be
    throw InputError(config.source, error.what());
  }
  if (interrupts.requested()) return 128 + interrupts.requested();

  RunFolder folder(config.run.dir, how);
  if (resume) {
    auto newest = modules::newest_checkpoint(folder.file("checkpoints"));
    if (!newest) throw InputError(config.run.dir.string(), "has no whole checkpoint", "start anew with --overwrite");
    unwrapped([&] { job->load(*newest); });
    say(fmt::format("going on from {}", newest->string()));
  }
  write_aside(folder.file("config.yaml"), write_config(config));
  if (set.tokenizer) set.tokenizer->save(folder.file("vocabulary.json"));

  auto description = describe(config.schedule);
  say(fmt::format("{}: {} steps. {}", folder.path().string(), config.run.steps, description));
  Training training(config, set, *job, folder, interrupts);
  training.run();
  bool stopped = interrupts.requested() && job->steps_done() < config.run.steps;
  training.finish(description);
  say(fmt::format("saved {}", folder.checkpoint(training.saved()).string()));
  say(fmt::format("report {}", folder.file("report.html").string()));
  if (!stopped) return 0;
  say(fmt::format("stopped after step {} of {}; to go on: the same command with --resume", job->steps_done(),
                  config.run.steps));
  return 128 + interrupts.requested();
}

}  // namespace nestor::launch
