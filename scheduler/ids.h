#pragma once

#include <compare>
#include <cstdint>

namespace nestor::scheduler {

/// An integer that only mixes with its own kind. `value` is the index into the table the id names.
template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int64_t v) : value(static_cast<std::int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

/// One device. LLM stage s lives on lane s mod P unless the workload says otherwise.
using LaneId = Id<struct LaneTag>;
/// A model stage: chunk * P + lane.
using StageId = Id<struct StageTag>;
/// A microbatch, in the plan's own numbering.
using MicrobatchId = Id<struct MicrobatchTag>;
/// 0 is the LLM, 1.. are the pools in the workload's order: encoders first, then generators.
using ModuleId = Id<struct ModuleTag>;

inline constexpr ModuleId kLlm{0};

}  // namespace nestor::scheduler
