#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nestor::actors {

/// What a scheduler actor is doing.
enum class Phase : std::uint8_t {
  idle,
  placing,    ///< lanes make and hand over what a new placement asks for
  running,    ///< lanes walk their rows
  draining,   ///< an abort is out; the lanes that have not answered yet will
  resolving,  ///< lanes finish the update, or forget the step, all alike
  broken,     ///< lanes disagree, or one does not answer: nothing more is started
};
std::string_view to_string(Phase phase);

enum class PhaseEvent : std::uint8_t { place, run, placed, finished, failed, drained, resolved, gave_up };
std::string_view to_string(PhaseEvent event);

struct PhaseTransition {
  Phase from;
  PhaseEvent event;
  Phase to;
  const char* why;
};
/// All there are.
std::span<const PhaseTransition> phase_transitions();
/// Throws Error where the table has no such transition.
Phase next_phase(Phase from, PhaseEvent event);

}  // namespace nestor::actors
