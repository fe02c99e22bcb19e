#include <array>
#include <utility>

#include <nestor/scheduler/describe.h>
#include <nestor/scheduler/error.h>
#include <nestor/scheduler/verifier.h>
#include <nestor/scheduler/verifier_state.h>

namespace nestor::scheduler {
namespace {

constexpr std::array<std::pair<Transport, std::string_view>, 4> kTransports{{{Transport::buffered, "buffered"},
                                                                             {Transport::edge, "edge"},
                                                                             {Transport::pair, "pair"},
                                                                             {Transport::single, "single"}}};

}  // namespace

Transport parse_transport(std::string_view name) {
  for (const auto& [transport, text] : kTransports)
    if (text == name) return transport;
  throw Error("transport", "'" + std::string(name) + "' is unknown", "buffered, edge, pair or single");
}

std::string_view to_string(Transport transport) {
  for (const auto& [known, text] : kTransports)
    if (known == transport) return text;
  return "?";
}

Verdict verify(const Plan& plan, Transport transport) {
  Verdict verdict;
  try {
    validate(plan.workload, "workload");
  } catch (const Error& error) {
    verdict.faults.push_back({"workload", error.what()});
    return verdict;
  }
  verification::State state(plan, verdict.faults);
  using Check = void (*)(verification::State&);
  for (const Check check : {Check{verification::check_rows}, Check{verification::check_backbone},
                            Check{verification::check_order}, Check{verification::check_pairs}}) {
    check(state);
    if (!verdict.sound()) return verdict;
  }
  verification::check_transport(state, transport);
  verification::check_ends(state);
  verification::check_times(state);
  verification::check_peaks(state);
  return verdict;
}

}  // namespace nestor::scheduler
