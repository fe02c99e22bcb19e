#include <fmt/format.h>

#include <nestor/launch/driver/watcher.h>

namespace nestor::launch {

std::string step_text(const StepRow& row) {
  std::string text = fmt::format("step {}: loss {:.6g}", row.step, row.loss);
  if (row.losses.size() > 1)
    for (const auto& [name, loss] : row.losses) text += fmt::format("  {} {:.4g}", name, loss);
  if (row.seconds > 0) text += fmt::format("  {:.3g} samples/s", static_cast<double>(row.samples) / row.seconds);
  text += fmt::format("  bubble {:.0f}%", row.bubble * 100);
  if (row.skipped) text += "  update skipped";
  return text;
}

void show_news(DriverContext& context) {
  for (const std::string& line : context.target.news().lines) context.out << line << '\n';
  context.out.flush();
}

Watcher::Watcher(DriverContext& context, std::int64_t steps)
    : context_(context), signals_(context.interrupts.count()), steps_(steps) {
  shown_ = first_ = context.target.status().job.step;
}

bool Watcher::interrupted() const {
  return context_.interrupts.count() > signals_;
}

Wait Watcher::operator()(const JobOutput& output) {
  for (const std::string& line : output.lines) {
    if (progress_) {
      progress_->note(line);
    } else {
      context_.out << line << '\n';
    }
  }
  show_steps(output.job);
  context_.out.flush();
  const int signals = context_.interrupts.count() - signals_;
  return signals == 0 ? Wait::on : signals == 1 ? Wait::pause : Wait::leave;
}

void Watcher::show_steps(const JobRow& row) {
  if (row.step == shown_) return;
  if (row.step < shown_) {  // a fault threw it back, which it has said
    shown_ = row.step;
    return;
  }
  if (steps_ >= 0 && steps_ <= kLines) {
    for (const StepRow& step : context_.target.history(shown_)) {
      context_.out << step_text(step) << '\n';
      shown_ = step.step;
    }
    return;
  }
  if (!progress_) progress_.emplace("step", steps_ < 0 ? row.steps : first_ + steps_, shown_);
  shown_ = row.step;
  progress_->update(row.step, fmt::format("loss {:.4g}", row.loss));
}

void Watcher::finish(const JobRow& row) {
  show_steps(row);
  if (progress_) {
    progress_->finish();
    progress_.reset();
    if (row.step > first_)
      for (const StepRow& step : context_.target.history(row.step - 1)) context_.out << step_text(step) << '\n';
  }
  context_.out.flush();
}

}  // namespace nestor::launch
