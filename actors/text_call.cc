#include <nestor/actors/detail/incoming.h>
#include <nestor/actors/detail/transcoder.h>
#include <nestor/actors/error.h>
#include <nestor/actors/plain.h>
#include <nestor/actors/registry.h>
#include <nestor/actors/runtime.h>
#include <nestor/actors/text_call.h>

namespace nestor::actors {

Future<std::string> call_as_text(Runtime& runtime, const std::string& actor, const std::string& method,
                                 const std::string& arguments) {
  const auto cell = runtime.registry()->find(actor);
  const detail::MakeIncoming make = cell->type().incoming(method);
  if (!make) {
    std::string names;
    for (const std::string& name : cell->type().methods()) names += (names.empty() ? "" : ", ") + name;
    throw Error(actor, "has no method '" + method + "'", names.empty() ? "it lists none" : "it has " + names);
  }
  const detail::Transcoder transcoder = cell->type().transcoder(method);
  if (!transcoder.arguments)
    throw Error(actor + "." + method, "takes or gives what cannot be written as text", "call it from C++");
  detail::Incoming incoming;
  incoming.method = method;
  incoming.node = runtime.node();
  try {
    incoming.arguments = Decoder::Owned(transcoder.arguments(Plain::read(arguments).list(), runtime.node()));
  } catch (const Error& error) {
    throw Error(actor + "." + method, error.what());
  }
  auto promise = std::make_shared<Promise<std::string>>();
  auto future = promise->future();
  incoming.reply = [promise, transcoder, node = runtime.node()](Encoded result, std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
      promise->set_value(transcoder.result(std::move(result), node).write());
    } catch (...) {
      promise->fail(std::current_exception());
    }
  };
  cell->post(make(cell, std::move(incoming)), true);
  return future;
}

}  // namespace nestor::actors
