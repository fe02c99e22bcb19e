#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace nestor::actors {

/// A failed step, call or actor: the work failed (exit 1). Names the actor. Errors of the lower layers are translated
/// into this type once, where they enter actors/; bad input keeps its own type (exit 2).
class Error : public std::runtime_error {
 public:
  Error(std::string actor, const std::string& what, const std::string& hint = "") : Error(actor, actor, what, hint) {}
  const std::string& actor() const { return actor_; }

 protected:
  Error(std::string actor, const std::string& where, const std::string& what, const std::string& hint)
      : std::runtime_error(where + ": " + what + (hint.empty() ? "" : " (" + hint + ")")), actor_(std::move(actor)) {}

 private:
  std::string actor_;
};

/// The actor has ended: killed, stopped, its constructor threw, or its runtime shut down. The text has the cause.
class ActorDied : public Error {
  using Error::Error;
};

/// The actor's method threw. The actor lives on.
class CallFailed : public Error {
 public:
  /// `method` may be empty: names are known of types that list their methods (method_table.h).
  CallFailed(std::string actor, const std::string& method, const std::string& what, std::exception_ptr cause)
      : Error(actor, method.empty() ? actor : actor + "." + method, what, ""), cause_(std::move(cause)) {}
  /// What the method threw, as it threw it.
  const std::exception_ptr& cause() const { return cause_; }

 private:
  std::exception_ptr cause_;
};

/// A wait reached its limit. The call goes on and may be waited for again.
class CallTimeout : public Error {
  using Error::Error;
};

/// The call was cancelled by its caller.
class CallCancelled : public Error {
  using Error::Error;
};

}  // namespace nestor::actors
