// What happens to a job when a step fails, is aborted or takes too long: the first failure is told, every wait ends,
// parameters are those before the step, and the job goes on.

#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/error.h>
#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>
#include <nestor/actors/scheduler_actor.h>
#include <nestor/modules/modules.h>

#include "hook_model.h"

namespace nestor::test {
namespace {

using testing::HasSubstr;

class ExecutorFailure : public testing::Test {
 protected:
  /// A job and the plain loop that it has to follow.
  void start(actors::JobSpec spec) {
    serial_ = actors::make_serial_job(spec);
    job_ = actors::make_pipeline_job(runtime_, std::move(spec));
  }
  void step_like_serial() {
    const auto expected = serial_->step(), report = job_->step();
    EXPECT_EQ(report.step, expected.step);
    EXPECT_NEAR(report.loss, expected.loss, 1e-12 * std::abs(expected.loss));
  }
  /// The step throws; its text is returned.
  std::string failing_step() {
    const auto before = job_->parameters();
    std::string what;
    try {
      job_->step();
      ADD_FAILURE() << "the step did not fail";
    } catch (const actors::Error& error) {
      what = error.what();
      actor_ = error.actor();
    }
    hooks_->set(nullptr);
    EXPECT_TRUE(equal(job_->parameters(), before));
    EXPECT_EQ(largest(job_->gradients()), 0);
    return what;
  }

  std::shared_ptr<Hooks> hooks_ = std::make_shared<Hooks>();
  Runtime runtime_;
  std::unique_ptr<actors::Job> serial_, job_;
  std::string actor_;
};

TEST_F(ExecutorFailure, AThrowingModuleFailsTheStepAndNothingElse) {
  start(hook_job(hooks_));
  step_like_serial();
  for (const std::string module : {"llm.layers.0", "llm.layers.4", "text", "vision", "image"})
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(testing::Message() << module << (backward ? " backward" : " forward"));
      hooks_->set([&](const HookPoint& point) -> double {
        if (point.module == module && point.backward == backward) throw std::runtime_error("the test says no");
        return 1;
      });
      const std::string what = failing_step();
      EXPECT_THAT(what, HasSubstr("the test says no"));
      EXPECT_THAT(what, HasSubstr("step 2"));
      EXPECT_THAT(what, HasSubstr(backward ? "backward" : "forward"));
      EXPECT_THAT(actor_, testing::StartsWith("lane"));
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  EXPECT_EQ(job_->steps_done(), 1);
  step_like_serial();
  step_like_serial();
}

TEST_F(ExecutorFailure, TheFirstFailureIsToldNotTheNoiseAfterIt) {
  start(hook_job(hooks_));
  hooks_->set([](const HookPoint& point) -> double {
    if (point.module == "llm.layers.4") throw std::runtime_error("the root of it");
    return 1;
  });
  EXPECT_THAT(failing_step(), HasSubstr("the root of it"));
  EXPECT_EQ(actor_, "lane1");
  step_like_serial();
}

TEST_F(ExecutorFailure, AnAbortEndsTheStepAfterTheOperatorUnderWay) {
  start(hook_job(hooks_));
  step_like_serial();
  Gate entered, leave;
  hooks_->set([&](const HookPoint& point) -> double {
    if (point.module == "llm.layers.4") {  // lane 0 comes to wait for this one
      entered.open();
      leave.pass();
    }
    return 1;
  });
  std::thread other([&] {
    entered.pass();
    job_->request_abort("the test wants out");
    // Mailboxes are in order: what answers now has taken the abort before.
    runtime_.find<actors::SchedulerActor>("scheduler").call(&actors::SchedulerActor::phase).get();
    for (const char* lane : {"lane0", "lane1"})
      EXPECT_THAT(runtime_.find<actors::Executor>(lane).call(&actors::Executor::status).get().doing,
                  testing::AnyOf("", HasSubstr("microbatch")));
    leave.open();
  });
  const std::string what = failing_step();
  other.join();
  EXPECT_THAT(what, HasSubstr("aborted: the test wants out"));
  step_like_serial();
}

TEST_F(ExecutorFailure, AnAbortOfNothingIsNothing) {
  start(hook_job(hooks_));
  job_->request_abort("too early");
  step_like_serial();
  job_->request_abort("too late");
  step_like_serial();
}

/// A module that is slow beyond the deadline: it cannot be stopped, but all who wait for it are.
TEST_F(ExecutorFailure, TheDeadlineEndsTheStep) {
  for (const std::int32_t stages : {2, 1}) {
    auto spec = hook_job(hooks_);
    spec.schedule.stages = stages;
    spec.step_deadline = std::chrono::milliseconds(100);
    start(std::move(spec));
    hooks_->set([](const HookPoint& point) -> double {
      if (point.module == "llm.layers.4" && point.microbatch == 0 && !point.backward) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
        while (std::chrono::steady_clock::now() < end) {
        }
      }
      return 1;
    });
    EXPECT_THAT(failing_step(), HasSubstr("deadline passed"));
    job_.reset();
  }
}

TEST_F(ExecutorFailure, ANormThatIsNotFiniteSkipsTheUpdateEverywhere) {
  start(hook_job(hooks_));
  step_like_serial();
  const auto before = job_->parameters();
  hooks_->set([](const HookPoint& point) -> double {
    return point.module == "vision" && point.backward ? std::numeric_limits<double>::quiet_NaN() : 1;
  });
  const auto expected = serial_->step(), report = job_->step();
  EXPECT_TRUE(expected.skipped);
  EXPECT_TRUE(report.skipped);
  EXPECT_TRUE(std::isfinite(report.loss));
  EXPECT_FALSE(std::isfinite(report.grad_norm));
  EXPECT_TRUE(equal(job_->parameters(), before));
  hooks_->set(nullptr);
  step_like_serial();
}

TEST_F(ExecutorFailure, AFactoryThatThrowsFailsTheStartAndTheRuntimeGoesOn) {
  auto spec = hook_job(hooks_);
  modules::Model model;
  const auto tokens = model.input("tokens"), labels = model.input("labels");
  const auto hidden = model.llm("llm", {tokens},
                                {[](Seed) -> std::shared_ptr<Module> { throw std::runtime_error("no such weights"); }});
  model.loss("text", {model.head("text", {hidden}, [](Seed) -> std::shared_ptr<Module> { return nullptr; }), labels},
             token_cross_entropy);
  spec.model = model;
  spec.schedule.stages = 1;
  EXPECT_THROW(actors::make_pipeline_job(runtime_, spec), std::exception);
  start(hook_job(hooks_));
  step_like_serial();
}

TEST_F(ExecutorFailure, AMemberThatCannotBeMadeLeavesThePoolAsItWas) {
  start(hook_job(hooks_));
  step_like_serial();
  const auto before = job_->parameters();
  hooks_->set([](const HookPoint& point) -> double {
    if (point.module == "make") throw std::runtime_error("no memory for it");
    return 1;
  });
  for (const std::vector<std::int32_t>& lanes : {std::vector<std::int32_t>{2}, {0, 1, 2, 3}}) {
    try {
      job_->resize("vision", lanes);
      ADD_FAILURE() << "the pool was resized";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("no memory for it"));
    }
    EXPECT_EQ(job_->schedule().pools.count("vision"), 0u);
    EXPECT_TRUE(equal(job_->parameters(), before));
  }
  hooks_->set(nullptr);
  step_like_serial();
  job_->resize("vision", {2});
  step_like_serial();
}

TEST(Executors, TwoJobsInOneRuntimeAndTwoRuntimesAtOnce) {
  auto hooks = std::make_shared<Hooks>();
  auto serial = actors::make_serial_job(hook_job(hooks));
  Runtime first, second;
  std::vector<std::unique_ptr<actors::Job>> jobs;
  jobs.push_back(actors::make_pipeline_job(first, hook_job(hooks)));
  jobs.push_back(actors::make_pipeline_job(first, hook_job(hooks)));
  jobs.push_back(actors::make_pipeline_job(second, hook_job(hooks)));
  std::vector<std::thread> threads;
  std::vector<std::vector<double>> losses(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j)
    threads.emplace_back([&, j] {
      for (int step = 0; step < 5; ++step) losses[j].push_back(jobs[j]->step().loss);
    });
  for (auto& thread : threads) thread.join();
  for (int step = 0; step < 5; ++step) {
    const double expected = serial->step().loss;
    for (const auto& of_job : losses)
      EXPECT_NEAR(of_job[static_cast<std::size_t>(step)], expected, 1e-10 * std::abs(expected));
  }
}

}  // namespace
}  // namespace nestor::test
