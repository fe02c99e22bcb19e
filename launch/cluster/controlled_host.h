#pragma once

#include <string>

#include <nestor/launch/cluster/job_control.h>
#include <nestor/launch/training.h>

namespace nestor::launch {

/// A training that is seen and steered through a JobControl, wherever its lanes are.
class ControlledHost : public TrainingHost {
 public:
  ControlledHost(JobControl& control, std::string dir) : control_(control), dir_(std::move(dir)) {}

  StopSource& stops() override { return control_; }
  void say(const std::string& line) override { control_.say(line); }
  void begin(std::int64_t total, std::int64_t done) override {
    control_.show([&](JobRow& row) {
      row.state = "running";
      row.dir = dir_;
      row.step = done;
      row.steps = total;
    });
  }
  void update(std::int64_t, const std::string&, const actors::StepReport&) override {}  // between_steps shows them all
  void finish() override {}
  void between_steps(StandingTraining& training) override { control_.between_steps(training); }

 protected:
  JobControl& control() { return control_; }

 private:
  JobControl& control_;
  const std::string dir_;
};

}  // namespace nestor::launch
