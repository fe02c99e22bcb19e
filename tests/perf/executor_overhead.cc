// What executors add to the modules' own work, as ratios and microseconds:
//   step     a step of the executor with P = 1 over the plain loop, same model, same threads (aim: 1.02 at most)
//   operator dispatch of an operator whose module does nothing, without what transfers cost by themselves (aim: 5 us)
// Medians of interleaved rounds; run it on a machine that has nothing else to do, or pinned to one core.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nestor/actors/job.h>
#include <nestor/actors/op_dispatch.h>
#include <nestor/actors/runtime.h>
#include <nestor/actors/tensor_buffer.h>
#include <nestor/comm/channel.h>
#include <nestor/modules/threads.h>
#include <nestor/scheduler/plan.h>

#include "../equivalence/tiny_model.h"

namespace nestor {
namespace {

using actors::LaneLink;
using actors::LanePlan;
using actors::LaneProgram;
using actors::OpDispatch;
using scheduler::Direction;
using scheduler::Operator;
using scheduler::OpKind;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double seconds(std::int64_t from) {
  return 1e-9 * static_cast<double>(actors::now_ns() - from);
}

void measure_step(int rounds) {
  test::TinyOptions model;
  model.width = 64;
  auto spec = test::tiny_job(model);
  spec.dtype = torch::kFloat32;
  spec.schedule.microbatches = 8;
  spec.schedule.microbatch_size = 4;
  Runtime runtime;
  auto serial = actors::make_serial_job(spec);
  auto job = actors::make_pipeline_job(runtime, spec);
  // The lane of P = 1 may use all cores, as the plain loop does.
  modules::set_operator_threads(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  std::vector<double> plain, executor, ratio, plain_cpu, executor_cpu;
  for (int round = 0; round < rounds + 5; ++round) {
    struct Cost {
      double wall, cpu;
    };
    auto timed = [](actors::Job& which) {
      const std::int64_t from = actors::now_ns();
      const std::clock_t cpu = std::clock();
      which.step();
      return Cost{seconds(from), static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
    };
    const bool plain_first = round % 2 == 0;
    const Cost first = timed(plain_first ? *serial : *job), second = timed(plain_first ? *job : *serial);
    if (round < 5) continue;
    plain.push_back((plain_first ? first : second).wall);
    executor.push_back((plain_first ? second : first).wall);
    ratio.push_back(executor.back() / plain.back());
    plain_cpu.push_back((plain_first ? first : second).cpu);
    executor_cpu.push_back((plain_first ? second : first).cpu);
  }
  std::printf(
      "step: plain %.3f ms, executor %.3f ms, ratio of medians %.4f, median ratio %.4f, of processor time %.4f\n",
      1e3 * median(plain), 1e3 * median(executor), median(executor) / median(plain), median(ratio),
      median(executor_cpu) / median(plain_cpu));
}

/// A part that computes nothing: hands on one tensor each way.
class EmptyPart final : public modules::Part {
 public:
  explicit EmptyPart(bool first) : value_(torch::zeros({16})), sources_(first ? 0 : 1, "llm") {}
  Forward forward(const std::vector<modules::Tensors>&, const modules::Microbatch&, const modules::LossScales&,
                  bool) override {
    return {{value_}, {}, std::make_unique<Stash>()};
  }
  std::vector<modules::Tensors> backward(std::unique_ptr<Stash>, const modules::Tensors&) override {
    return std::vector<modules::Tensors>(sources_.size(), modules::Tensors{value_});
  }
  Forward evaluate(const std::vector<modules::Tensors>&, const modules::Microbatch&) override { return {}; }
  const std::vector<std::string>& sources() const override { return sources_; }
  const std::vector<std::pair<std::string, modules::Tensor>>& parameters() const override { return parameters_; }
  double forward_flops(const modules::Microbatch&) const override { return 0; }

 private:
  modules::Tensor value_;
  std::vector<std::string> sources_;
  std::vector<std::pair<std::string, modules::Tensor>> parameters_;
};

Operator compute(OpKind kind, std::int32_t stage, std::int32_t microbatch) {
  Operator op;
  op.kind = kind;
  op.stage = stage;
  op.microbatch = microbatch;
  return op;
}

Operator transfer(OpKind kind, Direction direction, std::int32_t from, std::int32_t to, std::int32_t microbatch) {
  Operator op = compute(kind, from, microbatch);
  op.direction = direction;
  op.to_stage = to;
  op.peer = kind == OpKind::send ? to : from;
  return op;
}

LaneProgram program_of(std::int32_t lane, std::int32_t stages, std::int32_t microbatches, std::vector<Operator> row) {
  LanePlan plan;
  plan.lane = lane;
  plan.model_stages = stages;
  plan.microbatches = microbatches;
  plan.row = std::move(row);
  scheduler::RowDigest digest;
  for (const Operator& op : plan.row) digest.add(op);
  plan.row_digest = digest.value();
  return actors::compile(std::move(plan));
}

/// Walks instructions [begin, end) as a lane does: times and digest recorded.
void walk(OpDispatch& dispatch, const LaneProgram& program, std::size_t begin, std::size_t end,
          std::vector<actors::OpTime>& times, scheduler::RowDigest& digest) {
  std::int64_t now = actors::now_ns();
  for (std::size_t i = begin; i < end; ++i) {
    times[i] = {};
    times[i].start_ns = now;
    dispatch.run(program.instructions[i], times[i]);
    now = times[i].end_ns = actors::now_ns();
    digest.add(program.instructions[i].op);
  }
}

struct Lane {
  LaneProgram program;
  EmptyPart first{true}, second{false};
  std::unique_ptr<OpDispatch> dispatch;
  std::vector<actors::OpTime> times;

  explicit Lane(LaneProgram p) : program(std::move(p)), times(program.instructions.size()) {
    std::vector<OpDispatch::Place> places(static_cast<std::size_t>(program.plan.model_stages));
    for (const auto& instruction : program.instructions) {
      if (!instruction.op.is_compute()) continue;
      auto& place = places[static_cast<std::size_t>(instruction.place)];
      if (instruction.place == 0) place = {&first, {}};
      if (instruction.place == 1) place = {&second, {0}};
    }
    dispatch = std::make_unique<OpDispatch>(program, places);
  }
};

modules::StepBatch batch_of(std::int32_t microbatches) {
  modules::StepBatch batch;
  batch.microbatches.resize(static_cast<std::size_t>(microbatches));
  return batch;
}

/// Both stages on one lane: no transfers.
double local_operator(std::int32_t microbatches) {
  std::vector<Operator> row;
  for (std::int32_t m = 0; m < microbatches; ++m)
    for (const auto kind : {OpKind::forward, OpKind::backward})
      for (std::int32_t s : {0, 1}) row.push_back(compute(kind, kind == OpKind::forward ? s : 1 - s, m));
  Lane lane(program_of(0, 2, microbatches, row));
  auto fabric = comm::make_inproc_fabric(1);
  const auto batch = batch_of(microbatches);
  const modules::LossScales scales;
  const LaneLink link{fabric->channel(0), 0, 1, 1, comm::Deadline::max()};
  const std::int64_t from = actors::now_ns();
  lane.dispatch->begin(link, batch, scales, actors::RunMode::train, lane.times);
  scheduler::RowDigest digest;
  walk(*lane.dispatch, lane.program, 0, row.size(), lane.times, digest);
  return seconds(from) / static_cast<double>(row.size());
}

/// Two lanes, a stage each, all forwards before all backwards; one thread walks both, so that nothing ever waits.
/// Less what the same transfers cost alone.
double remote_operator(std::int32_t microbatches, std::uint64_t run, double* transfer_share) {
  std::vector<Operator> rows[2];
  for (std::int32_t m = 0; m < microbatches; ++m) {
    rows[0].push_back(compute(OpKind::forward, 0, m));
    rows[0].push_back(transfer(OpKind::send, Direction::activation, 0, 1, m));
    rows[1].push_back(transfer(OpKind::recv, Direction::activation, 0, 1, m));
    rows[1].push_back(compute(OpKind::forward, 1, m));
  }
  const std::size_t half = rows[0].size();
  for (std::int32_t m = 0; m < microbatches; ++m) {
    rows[1].push_back(compute(OpKind::backward, 1, m));
    rows[1].push_back(transfer(OpKind::send, Direction::gradient, 1, 0, m));
    rows[0].push_back(transfer(OpKind::recv, Direction::gradient, 1, 0, m));
    rows[0].push_back(compute(OpKind::backward, 0, m));
  }
  Lane lanes[2] = {Lane(program_of(0, 2, microbatches, rows[0])), Lane(program_of(1, 2, microbatches, rows[1]))};
  auto fabric = comm::make_inproc_fabric(2);
  const auto batch = batch_of(microbatches);
  const modules::LossScales scales;
  scheduler::RowDigest digest;
  std::int64_t from = actors::now_ns();
  for (std::int32_t l : {0, 1}) {
    const LaneLink link{fabric->channel(l), l, 1, run, comm::Deadline::max()};
    lanes[l].dispatch->begin(link, batch, scales, actors::RunMode::train, lanes[l].times);
  }
  walk(*lanes[0].dispatch, lanes[0].program, 0, half, lanes[0].times, digest);
  walk(*lanes[1].dispatch, lanes[1].program, 0, rows[1].size(), lanes[1].times, digest);
  walk(*lanes[0].dispatch, lanes[0].program, half, rows[0].size(), lanes[0].times, digest);
  const double whole = seconds(from);

  auto bare = comm::make_inproc_fabric(2);
  const modules::Tensors payload{torch::zeros({16})};
  from = actors::now_ns();
  for (std::int32_t direction : {0, 1}) {
    comm::Channel &sender = bare->channel(direction), &receiver = bare->channel(1 - direction);
    for (std::int32_t m = 0; m < microbatches; ++m) {
      const comm::Key key{1, run, static_cast<std::uint64_t>(m)};
      if (!sender.send(1 - direction, key, actors::to_message(payload), comm::Deadline::max()).ok()) std::abort();
    }
    for (std::int32_t m = 0; m < microbatches; ++m) {
      const comm::Key key{1, run, static_cast<std::uint64_t>(m)};
      comm::Message message;
      if (!receiver.post_recv(direction, key).ok() ||
          !receiver.wait(direction, key, comm::Deadline::max(), &message).ok())
        std::abort();
      actors::to_tensors(message);
    }
  }
  const double transfers = seconds(from);
  *transfer_share = transfers / static_cast<double>(2 * microbatches);
  return (whole - transfers) / static_cast<double>(rows[0].size() + rows[1].size());
}

void measure_operator(int rounds) {
  std::vector<double> local, remote, transfers;
  for (int round = 0; round < rounds; ++round) {
    local.push_back(local_operator(256));
    double share = 0;
    remote.push_back(remote_operator(256, static_cast<std::uint64_t>(round) + 1, &share));
    transfers.push_back(share);
  }
  std::printf("operator: on one lane %.2f us, between two lanes %.2f us beyond transfers (a transfer alone %.2f us)\n",
              1e6 * median(local), 1e6 * median(remote), 1e6 * median(transfers));
}

}  // namespace
}  // namespace nestor

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
  nestor::measure_operator(rounds);
  nestor::measure_step(rounds);
  return 0;
}
