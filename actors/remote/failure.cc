#include <envelope.pb.h>

#include <nestor/actors/remote/core.h>

namespace nestor::actors::remote {
namespace {

/// An error's text without the actor (and method) that its type puts in front.
std::string without(const std::string& prefix, const std::string& what) {
  return what.starts_with(prefix + ": ") ? what.substr(prefix.size() + 2) : what;
}

}  // namespace

std::exception_ptr died(const std::string& who, const std::string& cause) {
  return std::make_exception_ptr(ActorDied(who, cause));
}

wire::Failure failure_of(const std::exception_ptr& error, const std::string& actor) {
  wire::Failure failure;
  failure.set_actor(actor);
  failure.set_kind(wire::Failure::REFUSED);
  try {
    std::rethrow_exception(error);
  } catch (const CallFailed& failed) {
    failure.set_kind(wire::Failure::THREW);
    failure.set_actor(failed.actor());
    const std::string what = failed.what();
    const std::string prefix = failed.actor() + ".";
    const auto colon = what.find(": ");
    if (what.starts_with(prefix) && colon != std::string::npos) {
      failure.set_method(what.substr(prefix.size(), colon - prefix.size()));
      failure.set_what(what.substr(colon + 2));
    } else {
      failure.set_what(without(failed.actor(), what));
    }
  } catch (const ActorDied& died) {
    failure.set_kind(wire::Failure::DIED);
    failure.set_actor(died.actor());
    failure.set_what(without(died.actor(), died.what()));
  } catch (const Error& refused) {
    failure.set_actor(refused.actor());
    failure.set_what(without(refused.actor(), refused.what()));
  } catch (const std::exception& other) {
    failure.set_what(other.what());
  } catch (...) {
    failure.set_what("something that is no std::exception");
  }
  return failure;
}

std::exception_ptr exception_of(const wire::Failure& failure) {
  const std::string& actor = failure.actor();
  switch (failure.kind()) {
    case wire::Failure::THREW: {
      auto cause = std::make_exception_ptr(std::runtime_error(failure.what()));
      return std::make_exception_ptr(CallFailed(actor, failure.method(), failure.what(), std::move(cause)));
    }
    case wire::Failure::DIED:
      return std::make_exception_ptr(ActorDied(actor, failure.what()));
    default:
      return std::make_exception_ptr(Error(actor, failure.what()));
  }
}

}  // namespace nestor::actors::remote
