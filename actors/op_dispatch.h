#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <nestor/actors/lane_link.h>
#include <nestor/actors/lane_program.h>
#include <nestor/modules/part.h>

namespace nestor::actors {

/// The one place that knows both operator rows and tensors. Holds, for one run of a lane's program, what its operators
/// hand each other: tensors by slot, stashes by forward; each is freed at its last use. Lane thread only.
class OpDispatch {
 public:
  /// A part, and for each of the plan's sources of its place which of the part's own it is (-1: the part does not read
  /// it). The part is null where another lane has it.
  struct Place {
    modules::Part* part = nullptr;
    std::vector<std::int32_t> source_map;
  };

  /// `places` by place number. Throws Error where a compute row names a place without a part.
  OpDispatch(const LaneProgram& program, std::vector<Place> places);

  /// What a run reads besides messages; it all outlives the run. Microbatches are in the batch plan's numbering.
  /// Arrival times of receives are written to `times`, by operator.
  void begin(const LaneLink& link, const modules::StepBatch& batch, const modules::LossScales& scales, RunMode mode,
             std::vector<OpTime>& times);
  /// Runs one compute or transfer row; waiting time and bytes go to `time`. Throws Error or Aborted, or whatever a
  /// module throws; `clear` then.
  void run(const Instruction& instruction, OpTime& time);
  /// Frees all that a failed run left behind.
  void clear();

  const modules::LossSums& loss_sums() const { return loss_sums_; }
  /// Peaks by module; the LLM's in units of the lane's full share.
  std::vector<double> in_flight_peaks() const;
  /// Nothing is left: so it is after every complete run.
  bool empty() const;

 private:
  void forward(const Instruction& instruction, OpTime& time);
  void backward(const Instruction& instruction, OpTime& time);
  void send(const Instruction& instruction, OpTime& time);
  void receive(const Instruction& instruction);
  /// Moves a slot's tensors out, waiting where they come from another lane.
  modules::Tensors take(std::int32_t slot, OpTime& time);
  void put(std::int32_t slot, modules::Tensors tensors);
  const modules::Microbatch& microbatch(const Instruction& instruction) const;
  const Place& place(const Instruction& instruction) const {
    return places_[static_cast<std::size_t>(instruction.place)];
  }

  const LaneProgram& program_;
  std::vector<Place> places_;
  std::vector<modules::Tensors> slots_;
  std::vector<std::uint8_t> full_;  ///< by slot: an empty list of tensors is a value too
  std::vector<std::unique_ptr<modules::Part::Stash>> stashes_;
  std::vector<std::int32_t> in_flight_, peak_;  ///< by module
  modules::LossSums loss_sums_;

  std::optional<LaneLink> link_;
  const modules::StepBatch* batch_ = nullptr;
  const modules::LossScales* scales_ = nullptr;
  std::vector<OpTime>* times_ = nullptr;
  RunMode mode_ = RunMode::train;
};

}  // namespace nestor::actors
