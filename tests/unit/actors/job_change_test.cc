// A job that changes between steps: policy, pools, checkpoints. Training goes on as if nothing had happened.

#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/error.h>
#include <nestor/actors/job.h>
#include <nestor/actors/runtime.h>
#include <nestor/modules/error.h>

#include "hook_model.h"

namespace nestor::test {
namespace {

using testing::HasSubstr;

void same_step(actors::Job& job, actors::Job& serial) {
  const auto expected = serial.step(), report = job.step();
  EXPECT_EQ(report.step, expected.step);
  EXPECT_NEAR(report.loss, expected.loss, 1e-10 * std::abs(expected.loss));
  EXPECT_NEAR(report.grad_norm, expected.grad_norm, 1e-10 * expected.grad_norm);
}

class JobChange : public testing::Test {
 protected:
  actors::JobSpec spec() const { return hook_job(std::make_shared<Hooks>()); }
  Runtime runtime_;
};

TEST_F(JobChange, PoolsGrowShrinkAndMove) {
  auto serial = actors::make_serial_job(spec());
  auto job = actors::make_pipeline_job(runtime_, spec());
  same_step(*job, *serial);
  const std::vector<std::vector<std::int32_t>> placements = {{0},    {1},       {0, 1}, {2}, {2, 3, 4},
                                                             {1, 3}, {0, 0, 1}, {1},    {3}};
  for (const auto& lanes : placements) {
    SCOPED_TRACE(testing::PrintToString(lanes));
    const auto before = job->parameters();
    job->resize("vision", lanes);
    EXPECT_TRUE(equal(job->parameters(), before));
    EXPECT_EQ(job->schedule().pools.at("vision"), lanes);
    same_step(*job, *serial);
    same_step(*job, *serial);
    std::vector<std::int32_t> members;
    for (const auto lane : job->plan()->workload.pools[0].lanes) members.push_back(lane.value);
    EXPECT_EQ(members, lanes);
    job->resize("image", {lanes.back()});
    same_step(*job, *serial);
  }
}

TEST_F(JobChange, PoliciesChangeBetweenSteps) {
  auto serial = actors::make_serial_job(spec());
  auto job = actors::make_pipeline_job(runtime_, spec());
  for (const std::string policy : {"coupled", "nested", "decoupled", "filled", "coupled", "decoupled"}) {
    SCOPED_TRACE(policy);
    job->set_policy(policy);
    EXPECT_EQ(job->schedule().policy, policy);
    same_step(*job, *serial);
    EXPECT_EQ(job->plan()->policy, policy);
    same_step(*job, *serial);
  }
}

TEST_F(JobChange, WhatCannotBeIsRefusedAndChangesNothing) {
  auto serial = actors::make_serial_job(spec());
  auto job = actors::make_pipeline_job(runtime_, spec());
  same_step(*job, *serial);
  auto refusal = [](auto change) {
    try {
      change();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refusal([&] { job->set_policy("fastest"); }), HasSubstr("nested"));
  EXPECT_THAT(refusal([&] { job->set_policy("serial"); }), HasSubstr("nested"));
  EXPECT_THAT(refusal([&] { job->resize("audio", {0}); }), HasSubstr("vision"));
  EXPECT_NE(refusal([&] { job->resize("vision", {}); }), "taken");
  EXPECT_NE(refusal([&] { job->resize("vision", {-1}); }), "taken");
  EXPECT_NE(refusal([&] { job->resize("vision", {1 << 20}); }), "taken");
  EXPECT_THAT(refusal([&] { serial->set_policy("nested"); }), HasSubstr("serial"));
  EXPECT_EQ(job->schedule().policy, "nested");
  EXPECT_EQ(job->schedule().pools.count("vision"), 0u);
  same_step(*job, *serial);

  auto too_many = spec();
  too_many.schedule.stages = 6;
  EXPECT_NE(refusal([&] { actors::make_pipeline_job(runtime_, too_many); }), "taken");
}

class Checkpoints : public JobChange {
 protected:
  Checkpoints() : folder_(std::filesystem::temp_directory_path() / "nestor-job-change") {
    folder_ += std::to_string(reinterpret_cast<std::uintptr_t>(this));
    std::filesystem::remove_all(folder_);
  }
  ~Checkpoints() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(Checkpoints, AreReadByAnyOtherShape) {
  auto serial = actors::make_serial_job(spec());
  auto writer_spec = spec();
  writer_spec.schedule.pools["vision"] = {0, 1};
  auto writer = actors::make_pipeline_job(runtime_, writer_spec);
  for (int step = 0; step < 3; ++step) same_step(*writer, *serial);
  writer->save(folder_ / "step-3");
  const auto after = serial->step();

  struct Shape {
    std::int32_t stages, chunks;
    std::vector<std::int32_t> vision;
  };
  for (const Shape& shape : {Shape{1, 1, {0}}, Shape{2, 2, {1}}, Shape{4, 1, {0, 1, 2, 3}}, Shape{2, 1, {2}}}) {
    auto reader_spec = spec();
    reader_spec.schedule.stages = shape.stages;
    reader_spec.schedule.chunks = shape.chunks;
    reader_spec.schedule.pools["vision"] = shape.vision;
    auto reader = actors::make_pipeline_job(runtime_, reader_spec);
    reader->load(folder_ / "step-3");
    EXPECT_EQ(reader->steps_done(), 3);
    EXPECT_TRUE(equal(reader->parameters(), writer->parameters()));
    const auto report = reader->step();
    EXPECT_EQ(report.step, 4);
    EXPECT_NEAR(report.loss, after.loss, 1e-10 * std::abs(after.loss));
  }
  auto plain = actors::make_serial_job(spec());
  plain->load(folder_ / "step-3");
  EXPECT_NEAR(plain->step().loss, after.loss, 1e-10 * std::abs(after.loss));
  // The moments came along too: the step after is right as well.
  EXPECT_NEAR(plain->step().loss, serial->step().loss, 1e-9);
}

TEST_F(Checkpoints, OneThatIsMissingOrForeignChangesNothing) {
  auto job = actors::make_pipeline_job(runtime_, spec());
  job->step();
  const auto before = job->parameters();
  EXPECT_THROW(job->load(folder_ / "none"), modules::Error);
  auto other = spec();
  other.dtype = torch::kFloat32;
  auto foreign = actors::make_pipeline_job(runtime_, other);
  foreign->step();
  foreign->save(folder_ / "foreign");
  EXPECT_THROW(job->load(folder_ / "foreign"), modules::Error);
  EXPECT_TRUE(equal(job->parameters(), before));
  EXPECT_EQ(job->steps_done(), 1);
  job->step();
}

TEST_F(JobChange, AStepReportsWhatWasMeasured) {
  auto job = actors::make_pipeline_job(runtime_, spec());
  const auto report = job->step(true);
  EXPECT_GT(report.seconds, 0);
  EXPECT_GT(report.tokens, 0);
  EXPECT_EQ(report.samples, 6);
  EXPECT_GE(report.bubble, 0);
  EXPECT_LT(report.bubble, 1);
  ASSERT_TRUE(report.timeline);
  EXPECT_EQ(report.timeline->source, "measured");
  EXPECT_EQ(report.timeline->rows.size(), job->plan()->table.operators.size());
  for (const auto& row : report.timeline->rows) {
    EXPECT_GE(row.start_ns, 0);
    EXPECT_GE(row.end_ns, row.start_ns);
    EXPECT_LE(row.wait_ns, row.end_ns - row.start_ns);
  }
  // What was in flight is what the plan said.
  const auto& planned = job->plan()->in_flight;
  EXPECT_EQ(report.in_flight.at("llm"), planned[0]);
  EXPECT_EQ(report.in_flight.at("vision"), planned[1]);
  EXPECT_EQ(report.in_flight.at("image"), planned[2]);
  EXPECT_FALSE(job->step().timeline);
}

}  // namespace
}  // namespace nestor::test
