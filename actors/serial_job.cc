#include <mutex>

#include <nestor/actors/batch_plan.h>
#include <nestor/actors/error.h>
#include <nestor/actors/job.h>
#include <nestor/actors/lane_link.h>
#include <nestor/modules/reference_step.h>
#include <nestor/modules/train/checkpoint.h>

namespace nestor::actors {
namespace {

/// The dataset, which throws once an abort was asked for: the plain loop has no waits to end, so a step ends where it
/// next reads.
class AbortableDataset final : public modules::Dataset {
 public:
  explicit AbortableDataset(std::shared_ptr<const modules::Dataset> dataset) : dataset_(std::move(dataset)) {}
  std::int64_t size(modules::Split split) const override { return dataset_->size(split); }
  modules::Sample describe(modules::Split split, std::int64_t id, std::int32_t draw) const override {
    return dataset_->describe(split, id, draw);
  }
  modules::Tensor read(std::string_view input, const modules::Microbatch& microbatch) const override {
    if (const auto cause = this->cause(); !cause.empty()) throw Error("job", "aborted: " + cause);
    return dataset_->read(input, microbatch);
  }
  std::vector<modules::SampleGroup> groups(modules::Split split) const override { return dataset_->groups(split); }
  std::string caption(const modules::Sample& sample) const override { return dataset_->caption(sample); }

  void set_cause(const std::string& cause) {
    std::lock_guard lock(mutex_);
    cause_ = cause;
  }
  std::string cause() const {
    std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  const std::shared_ptr<const modules::Dataset> dataset_;
  mutable std::mutex mutex_;
  std::string cause_;
};

class SerialJob final : public Job {
 public:
  explicit SerialJob(JobSpec spec)
      : spec_(std::move(spec)),
        dataset_(spec_.dataset),
        model_(spec_.model, options(spec_)),
        optimizer_(spec_.optimizer, model_.parameters()) {}

  StepReport step(bool) override {
    dataset_.set_cause("");
    const std::int64_t began = now_ns();
    const auto batch = make_step_batch(spec_.model, dataset_, spec_.schedule, spec_.seed, steps_ + 1);
    modules::ReferenceStep result;
    try {
      result = modules::reference_step(model_, optimizer_, batch, dataset_);
    } catch (const std::exception& error) {
      optimizer_.zero_gradients();
      if (const auto cause = dataset_.cause(); !cause.empty()) throw Error("job", "aborted: " + cause);
      throw Error("job", "step " + std::to_string(steps_ + 1) + " failed: " + error.what());
    }
    ++steps_;
    StepReport report;
    report.step = steps_;
    report.loss = result.losses.total;
    report.losses.insert(result.losses.losses.begin(), result.losses.losses.end());
    report.grad_norm = result.grad_norm;
    report.skipped = result.skipped;
    report.tokens = result.counts.tokens;
    report.samples = result.counts.samples;
    report.seconds = 1e-9 * static_cast<double>(now_ns() - began);
    return report;
  }
  std::map<std::string, double> evaluate(std::int64_t samples) override {
    const auto batch = make_evaluation_batch(dataset_, spec_.schedule, samples);
    if (batch.microbatches.empty()) return {};
    const auto means = modules::reference_evaluate(model_, batch, dataset_);
    return {means.losses.begin(), means.losses.end()};
  }

  std::int64_t steps_done() const override { return steps_; }
  std::shared_ptr<const scheduler::Plan> plan() const override { return nullptr; }
  void set_policy(const std::string& policy) override {
    if (policy != "serial")
      throw Error("job", "runs without executors and has no policy '" + policy + "'",
                  "start a job with that policy; this one has serial");
  }
  void resize(const std::string& pool, const std::vector<std::int32_t>&) override {
    throw Error("job", "runs without executors: there is no pool '" + pool + "' to resize", "start one with a policy");
  }
  const ScheduleOptions& schedule() const override { return spec_.schedule; }

  void save(const std::filesystem::path& folder) override {
    const modules::CheckpointWriter writer(folder);
    modules::CheckpointInfo info;
    info.step = steps_;
    info.seed = spec_.seed;
    info.files.push_back(writer.write_lane(0, state()));
    writer.finish(info);
  }
  void load(const std::filesystem::path& folder) override {
    const auto info = modules::read_checkpoint_info(folder);
    std::set<std::string> names;
    for (const auto& [name, tensor] : state()) names.insert(name);
    modules::load_into(state(), modules::read_checkpoint(folder, names), folder.string());
    optimizer_.zero_gradients();
    steps_ = info.step;
  }
  std::map<std::string, torch::Tensor> parameters() override {
    std::map<std::string, torch::Tensor> copies;
    for (const auto& [name, tensor] : model_.parameters()) copies[name] = tensor.detach().clone();
    return copies;
  }
  std::map<std::string, torch::Tensor> gradients() override {
    std::map<std::string, torch::Tensor> copies;
    for (const auto& [name, tensor] : model_.parameters()) {
      if (!tensor.requires_grad()) continue;
      copies[name] = tensor.grad().defined() ? tensor.grad().detach().clone() : torch::zeros_like(tensor).detach();
    }
    return copies;
  }
  void request_abort(const std::string& cause) override {
    dataset_.set_cause(cause.empty() ? "no cause given" : cause);
  }

 private:
  static modules::PartOptions options(const JobSpec& spec) {
    modules::PartOptions options;
    options.dtype = spec.dtype;
    options.seed = modules::Seed(spec.seed);
    return options;
  }
  modules::NamedTensors state() const {
    modules::NamedTensors all = model_.parameters();
    for (const auto& entry : optimizer_.state()) all.push_back(entry);
    return all;
  }

  const JobSpec spec_;
  AbortableDataset dataset_;
  modules::WholeModel model_;
  modules::Optimizer optimizer_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Job> make_serial_job(JobSpec spec) {
  return std::make_unique<SerialJob>(std::move(spec));
}

}  // namespace nestor::actors
