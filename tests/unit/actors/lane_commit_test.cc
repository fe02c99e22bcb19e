// The commit point of a step, lane by lane: where one lane has decided on the update and another was aborted while it
// waited for the decision, the second can still finish, and both have the parameters of an undisturbed step.

#include <thread>

#include <gtest/gtest.h>

#include <nestor/actors/batch_plan.h>
#include <nestor/actors/lane.h>
#include <nestor/actors/step_planner.h>
#include <nestor/actors/tag.h>

#include "hook_model.h"

namespace nestor::test {
namespace {

using namespace actors;

/// Passes everything on, but loses the norm's answer: a lane that was aborted just then.
class LosesNorm final : public comm::Channel {
 public:
  explicit LosesNorm(comm::Channel& channel) : channel_(channel) {}
  comm::Status send(std::int32_t to, const comm::Key& key, comm::Message message, comm::Deadline deadline) override {
    return channel_.send(to, key, std::move(message), deadline);
  }
  comm::Status post_recv(std::int32_t from, const comm::Key& key) override { return channel_.post_recv(from, key); }
  comm::Status wait(std::int32_t from, const comm::Key& key, comm::Deadline deadline, comm::Message* out) override {
    if (key.tag == norm_tag()) return {comm::Code::aborted, "lost by the test"};
    return channel_.wait(from, key, deadline, out);
  }
  bool poll(std::int32_t from, const comm::Key& key) override { return channel_.poll(from, key); }
  void abort(std::uint64_t generation, const std::string& cause) override { channel_.abort(generation, cause); }
  void set_generation(std::uint64_t generation) override { channel_.set_generation(generation); }
  comm::Counters counters() const override { return channel_.counters(); }

 private:
  comm::Channel& channel_;
};

TEST(LaneCommit, ALaneAbortedAfterTheDecisionFinishesTheUpdate) {
  auto spec = std::make_shared<const JobSpec>(hook_job(std::make_shared<Hooks>()));
  const auto batch = make_step_batch(spec->model, *spec->dataset, spec->schedule, spec->seed, 1);
  StepPlanner planner(spec, batch);
  const auto prepared = planner.prepare(spec->schedule, batch, false);
  auto fabric = comm::make_inproc_fabric(2);
  LosesNorm lossy(fabric->channel(1));
  Lane first(0, spec, fabric->channel(0)), second(1, spec, lossy);

  auto message = RunStep{};
  message.generation = 1;
  message.run = 1;
  message.step = 1;
  message.plan_digest = prepared->digest;
  message.deadline_ms = 30'000;
  LaneReport done, aborted;
  auto run = [&](Lane& lane, std::size_t number, LaneReport& report) {
    auto placement = prepared->placements[number];
    placement.generation = 1;
    placement.deadline_ms = 30'000;
    lane.stage(placement);
    lane.settle(true);
    lane.install(prepared->rows[number]);
    report = lane.run(message);
  };
  std::thread other([&] { run(second, 1, aborted); });
  run(first, 0, done);
  other.join();

  EXPECT_EQ(done.end, RunEnd::done) << done.cause;
  EXPECT_TRUE(done.updated);
  EXPECT_EQ(done.row_digest, prepared->rows[0].row_digest);
  EXPECT_EQ(aborted.end, RunEnd::aborted);
  EXPECT_TRUE(aborted.prepared);
  EXPECT_FALSE(aborted.updated);
  EXPECT_EQ(first.version(), 1);
  EXPECT_EQ(second.version(), 0);

  const Resolve resolve{2, 1, 1, true, done.update_scale};
  first.resolve(resolve);
  second.resolve(resolve);
  EXPECT_EQ(first.version(), 1);
  EXPECT_EQ(second.version(), 1);

  auto serial = make_serial_job(*spec);
  serial->step();
  const auto expected = serial->parameters();
  std::size_t compared = 0;
  for (const Lane* lane : {&first, &second})
    for (const auto& [name, parameter] : lane->parameters()) {
      EXPECT_LE((parameter - expected.at(name)).abs().max().item<double>(), 1e-12) << name;
      ++compared;
    }
  EXPECT_EQ(compared, expected.size());
}

}  // namespace
}  // namespace nestor::test
