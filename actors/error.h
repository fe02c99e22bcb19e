#pragma once

#include <stdexcept>
#include <string>

namespace nestor::actors {

/// A failed step, call or actor: the work failed (exit 1). Names the actor. Errors of the lower layers are translated
/// into this type once, where they enter actors/; bad input keeps its own type (exit 2).
class Error : public std::runtime_error {
 public:
  Error(std::string actor, const std::string& what, const std::string& hint = "")
      : std::runtime_error(actor + ": " + what + (hint.empty() ? "" : " (" + hint + ")")), actor_(std::move(actor)) {}
  const std::string& actor() const { return actor_; }

 private:
  std::string actor_;
};

}  // namespace nestor::actors
