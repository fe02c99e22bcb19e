#include <algorithm>
#include <string>

#include <nestor/actors/error.h>
#include <nestor/actors/op_dispatch.h>
#include <nestor/actors/tensor_buffer.h>
#include <nestor/modules/train/counts.h>

namespace nestor::actors {

using modules::Tensors;
using scheduler::OpKind;

namespace {

/// Adds gradients of one value that came back from another reader. Never in place: the first may be shared with the
/// lane that sent it.
void add_gradients(Tensors& sum, Tensors more) {
  if (sum.size() < more.size()) sum.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) {
    if (!more[i].defined()) continue;
    sum[i] = sum[i].defined() ? sum[i] + more[i] : std::move(more[i]);
  }
}

}  // namespace

OpDispatch::OpDispatch(const LaneProgram& program, std::vector<Place> places)
    : program_(program),
      places_(std::move(places)),
      slots_(program.arrivals.size()),
      full_(program.arrivals.size(), 0),
      stashes_(static_cast<std::size_t>(program.stash_count)),
      in_flight_(program.plan.pools.size() + 1, 0),
      peak_(in_flight_) {
  for (const Instruction& instruction : program_.instructions) {
    if (!instruction.op.is_compute()) continue;
    const auto at = static_cast<std::size_t>(instruction.place);
    if (at >= places_.size() || !places_[at].part)
      throw Error("lane" + std::to_string(program.plan.lane), "refuses \"" + describe(instruction.op, program.plan) +
                                                                  "\": it does not have that part of the model");
  }
}

void OpDispatch::begin(const LaneLink& link, const modules::StepBatch& batch, const modules::LossScales& scales,
                       RunMode mode, std::vector<OpTime>& times) {
  if (batch.microbatches.size() != static_cast<std::size_t>(program_.plan.microbatches))
    throw Error("lane" + std::to_string(program_.plan.lane),
                "the plan has " + std::to_string(program_.plan.microbatches) + " microbatches and the batch " +
                    std::to_string(batch.microbatches.size()));
  link_.emplace(link);
  batch_ = &batch;
  scales_ = &scales;
  mode_ = mode;
  times_ = &times;
  loss_sums_.clear();
  std::fill(in_flight_.begin(), in_flight_.end(), 0);
  std::fill(peak_.begin(), peak_.end(), 0);
}

void OpDispatch::run(const Instruction& instruction, OpTime& time) {
  switch (instruction.op.kind) {
    case OpKind::forward:
      return forward(instruction, time);
    case OpKind::backward:
      return backward(instruction, time);
    case OpKind::send:
      return send(instruction, time);
    case OpKind::recv:
      return receive(instruction);
    default:
      throw Error("lane" + std::to_string(program_.plan.lane),
                  "cannot run \"" + describe(instruction.op, program_.plan) + "\"");
  }
}

const modules::Microbatch& OpDispatch::microbatch(const Instruction& instruction) const {
  const auto& order = program_.plan.microbatch_order;
  const auto number = static_cast<std::size_t>(instruction.op.microbatch);
  return batch_->microbatches[order.empty() ? number : static_cast<std::size_t>(order[number])];
}

void OpDispatch::forward(const Instruction& instruction, OpTime& time) {
  const Place& here = place(instruction);
  std::vector<Tensors> inputs(here.part->sources().size());
  const auto slots = program_.inputs(instruction);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    if (slots[k] < 0) continue;
    Tensors arrived = take(slots[k], time);
    if (here.source_map[k] >= 0) inputs[static_cast<std::size_t>(here.source_map[k])] = std::move(arrived);
  }
  const bool keep = mode_ == RunMode::train && instruction.stash >= 0;
  modules::Part::Forward result = mode_ == RunMode::train
                                      ? here.part->forward(inputs, microbatch(instruction), *scales_, keep)
                                      : here.part->evaluate(inputs, microbatch(instruction));
  modules::add_to(loss_sums_, result.losses);
  if (keep) {
    stashes_[static_cast<std::size_t>(instruction.stash)] = std::move(result.stash);
    const auto module = static_cast<std::size_t>(instruction.op.module);
    peak_[module] = std::max(peak_[module], ++in_flight_[module]);
  }
  const auto targets = program_.outputs(instruction);
  for (std::size_t k = 0; k < targets.size(); ++k)
    put(targets[k], k + 1 < targets.size() ? result.outputs : std::move(result.outputs));
}

void OpDispatch::backward(const Instruction& instruction, OpTime& time) {
  const Place& here = place(instruction);
  Tensors gradients;
  for (std::int32_t slot : program_.inputs(instruction)) add_gradients(gradients, take(slot, time));
  auto stash = std::move(stashes_[static_cast<std::size_t>(instruction.stash)]);
  std::vector<Tensors> back = here.part->backward(std::move(stash), gradients);
  --in_flight_[static_cast<std::size_t>(instruction.op.module)];
  const auto targets = program_.outputs(instruction);
  for (std::size_t k = 0; k < targets.size(); ++k) {
    if (targets[k] < 0) continue;
    const std::int32_t source = here.source_map[k];
    put(targets[k], source >= 0 && static_cast<std::size_t>(source) < back.size()
                        ? std::move(back[static_cast<std::size_t>(source)])
                        : Tensors{});
  }
}

void OpDispatch::send(const Instruction& instruction, OpTime& time) {
  comm::Message message = to_message(take(program_.inputs(instruction)[0], time));
  time.bytes = static_cast<std::int64_t>(comm::bytes(message));
  check(link_->channel.send(instruction.op.peer, link_->key(instruction.tag), std::move(message), link_->deadline),
        link_->lane);
}

void OpDispatch::receive(const Instruction& instruction) {
  check(link_->channel.post_recv(instruction.op.peer, link_->key(instruction.tag)), link_->lane);
}

Tensors OpDispatch::take(std::int32_t slot, OpTime& time) {
  const auto at = static_cast<std::size_t>(slot);
  const LaneProgram::Arrival& arrival = program_.arrivals[at];
  if (arrival.from < 0) {
    if (!full_[at])
      throw Error("lane" + std::to_string(program_.plan.lane), "has lost a value between two of its operators");
    full_[at] = 0;
    return std::exchange(slots_[at], {});
  }
  const std::int64_t before = now_ns();
  comm::Message message;
  check(link_->channel.wait(arrival.from, link_->key(arrival.tag), link_->deadline, &message), link_->lane);
  const std::int64_t after = now_ns();
  time.wait_ns += after - before;
  OpTime& receive = (*times_)[static_cast<std::size_t>(arrival.operator_index)];
  receive.end_ns = after;
  receive.wait_ns = after - before;
  receive.bytes = static_cast<std::int64_t>(comm::bytes(message));
  return to_tensors(message);
}

void OpDispatch::put(std::int32_t slot, Tensors tensors) {
  slots_[static_cast<std::size_t>(slot)] = std::move(tensors);
  full_[static_cast<std::size_t>(slot)] = 1;
}

void OpDispatch::clear() {
  for (Tensors& slot : slots_) slot.clear();
  for (auto& stash : stashes_) stash.reset();
  std::fill(full_.begin(), full_.end(), 0);
}

std::vector<double> OpDispatch::in_flight_peaks() const {
  std::vector<double> peaks(peak_.begin(), peak_.end());
  peaks[0] /= program_.plan.chunks;
  return peaks;
}

bool OpDispatch::empty() const {
  return std::none_of(full_.begin(), full_.end(), [](std::uint8_t full) { return full != 0; }) &&
         std::none_of(stashes_.begin(), stashes_.end(), [](const auto& stash) { return stash != nullptr; });
}

}  // namespace nestor::actors
