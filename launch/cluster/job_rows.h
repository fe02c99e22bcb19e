#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nestor/actors/codec.h>

namespace nestor::launch {

/// What whoever steers a training may ask of it between two steps.
struct JobRequest {
  enum class Kind : std::uint8_t {
    policy,      ///< `name`, from the next step on
    resize,      ///< pool `name` has `size` members, member i on lane i mod stages
    move,        ///< pool `name` has its members on `lanes`
    set,         ///< `name` is KEY=VALUE
    plan,        ///< the last step's, nestor.plan/1; empty before one
    trace,       ///< takes the next step and measures it: nestor.timeline/1
    checkpoint,  ///< saves; the folder
  };
  Kind kind = Kind::plan;
  std::string name;
  std::int32_t size = 0;
  std::vector<std::int32_t> lanes;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(kind, name, size, lanes);
  }
};

/// The answer: what was asked for, or why not, as an exit code and a line (launch/exit.h), which outlive the way from
/// one process to another.
struct JobAnswer {
  std::string text;
  std::int32_t code = 0;
  std::string error;
  /// The text. Throws InputError or WorkError where there is none.
  std::string value() &&;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(text, code, error);
  }
};

/// A step that a training has done.
struct StepRow {
  std::int64_t step = 0;
  double loss = 0;
  std::map<std::string, double> losses;
  double grad_norm = 0;
  bool skipped = false;
  std::int64_t tokens = 0, samples = 0;
  double seconds = 0, bubble = 0;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(step, loss, losses, grad_norm, skipped, tokens, samples, seconds, bubble);
  }
};

}  // namespace nestor::launch
