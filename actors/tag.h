#pragma once

#include <cstdint>

#include <nestor/scheduler/operator_table.h>

namespace nestor::actors {

/// What a channel key's tag names within one run of a plan. All 64 bits are spoken for:
/// kind (2) | direction (1) | sending module (8) | receiving module (8) | stage (21) | microbatch (24).
/// Two lanes whose both neighbours are the other one can therefore never swap an activation and a gradient.
enum class TagKind : std::uint8_t { edge, reduction, norm, state };

inline constexpr std::int32_t kMaxModules = 1 << 8, kMaxStages = 1 << 21, kMaxMicrobatches = 1 << 24;

constexpr std::uint64_t make_tag(TagKind kind, scheduler::Direction direction, std::int32_t from_module,
                                 std::int32_t to_module, std::int32_t stage, std::int32_t microbatch) {
  return static_cast<std::uint64_t>(kind) << 62 | static_cast<std::uint64_t>(direction) << 61 |
         static_cast<std::uint64_t>(from_module) << 53 | static_cast<std::uint64_t>(to_module) << 45 |
         static_cast<std::uint64_t>(stage) << 24 | static_cast<std::uint64_t>(microbatch);
}

/// Of an edge between stages the sending one tells which; every other edge has one stage at most it can mean.
constexpr std::uint64_t edge_tag(scheduler::Direction direction, std::int32_t from_module, std::int32_t from_stage,
                                 std::int32_t to_module, std::int32_t microbatch) {
  const bool between_stages = from_module == 0 && to_module == 0;
  return make_tag(TagKind::edge, direction, from_module, to_module, between_stages ? from_stage : 0, microbatch);
}

/// Collectives: the key is the collective's alone, whoever sends.
constexpr std::uint64_t reduction_tag(std::int32_t index) {
  return make_tag(TagKind::reduction, scheduler::Direction::gradient, 0, 0, index, 0);
}
constexpr std::uint64_t norm_tag() {
  return make_tag(TagKind::norm, scheduler::Direction::gradient, 0, 0, 0, 0);
}
/// Parameters and optimizer state that one lane hands another when members move.
constexpr std::uint64_t state_tag() {
  return make_tag(TagKind::state, scheduler::Direction::activation, 0, 0, 0, 0);
}

}  // namespace nestor::actors
