#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nestor/actors/messages.h>

namespace nestor::actors {

/// An operator with its tensors' places resolved. A slot holds what one edge carries for one microbatch: it is filled
/// once and emptied by its one reader, so a tensor is freed at its last use and running is array indexing.
struct Instruction {
  scheduler::Operator op;
  std::int32_t place = -1;  ///< compute: model stage, or model_stages + pool
  std::uint32_t inputs = 0, input_count = 0;
  std::uint32_t outputs = 0, output_count = 0;
  std::int32_t stash = -1;  ///< compute: where the forward's stash waits for the backward; -1: no backward
  std::uint64_t tag = 0;    ///< transfers
};

/// A lane's row, checked and compiled. Knows nothing of tensors. Immutable.
///
/// Inputs and outputs of an instruction, as indices into `slots` (-1: nothing there):
///   forward   inputs: one per source of the place, in its order; outputs: every reader's slot
///   backward  inputs: one per reader whose gradient comes back, LLM first, then pools in order (the order in which
///             they are summed); outputs: one per source, -1 where that source has no backward
///   send      inputs: one.   recv  outputs: one
struct LaneProgram {
  struct Arrival {
    std::int32_t from = -1;  ///< -1: made on this lane
    std::uint64_t tag = 0;
    std::int32_t operator_index = -1;  ///< its recv row
  };

  LanePlan plan;
  std::vector<Instruction> instructions;
  std::vector<std::int32_t> slots;  ///< the instructions' inputs and outputs, one after another
  std::vector<Arrival> arrivals;    ///< by slot
  std::int32_t stash_count = 0;

  std::span<const std::int32_t> inputs(const Instruction& i) const { return {slots.data() + i.inputs, i.input_count}; }
  std::span<const std::int32_t> outputs(const Instruction& i) const {
    return {slots.data() + i.outputs, i.output_count};
  }
};

/// The modules that a place reads, by number: what `inputs` of its forward stand for. Absent ones are among them.
std::vector<std::int32_t> sources_of(const LanePlan& plan, std::int32_t place);

/// Throws Error naming the lane and the operator where the row asks for what cannot be there (a gradient that nobody
/// makes, a value read twice, an operator this executor does not know, a digest that is not the row's).
LaneProgram compile(LanePlan plan);

/// "backward llm stage 3 microbatch 5".
std::string describe(const scheduler::Operator& op, const LanePlan& plan);

}  // namespace nestor::actors
