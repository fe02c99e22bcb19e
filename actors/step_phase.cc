#include <string>

#include <nestor/actors/error.h>
#include <nestor/actors/step_phase.h>

namespace nestor::actors {

std::span<const PhaseTransition> phase_transitions() {
  using enum Phase;
  using Event = PhaseEvent;
  static constexpr PhaseTransition table[] = {
      {idle, Event::place, placing, "the plan wants the model elsewhere"},
      {idle, Event::run, running, "the model lies where the plan wants it"},
      {placing, Event::run, running, "every lane has what it needs"},
      {placing, Event::placed, idle, "nothing but a move was asked for"},
      {placing, Event::failed, draining, "a lane could not make its share, or somebody asked to stop"},
      {running, Event::finished, idle, "every lane has walked its whole row"},
      {running, Event::failed, draining, "a lane failed, the deadline passed, or somebody asked to stop"},
      {draining, Event::drained, resolving, "no lane works on it any more"},
      {resolving, Event::resolved, idle, "all lanes are at the same step again"},
      {running, Event::gave_up, broken, "what ran is not what was planned"},
      {draining, Event::gave_up, broken, "a lane does not answer"},
      {resolving, Event::gave_up, broken, "a lane does not answer, or could not follow the others"},
  };
  return table;
}

Phase next_phase(Phase from, PhaseEvent event) {
  for (const PhaseTransition& transition : phase_transitions())
    if (transition.from == from && transition.event == event) return transition.to;
  throw Error("scheduler",
              std::string("is ").append(to_string(from)).append(", where nothing can be ").append(to_string(event)));
}

std::string_view to_string(Phase phase) {
  static constexpr std::string_view names[] = {"idle", "placing", "running", "draining", "resolving", "broken"};
  return names[static_cast<std::size_t>(phase)];
}

std::string_view to_string(PhaseEvent event) {
  static constexpr std::string_view names[] = {"placed anew", "run",     "found in place", "finished",
                                               "failed",      "drained", "resolved",       "given up"};
  return names[static_cast<std::size_t>(event)];
}

}  // namespace nestor::actors
