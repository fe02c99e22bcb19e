#include <nestor/actors/error.h>
#include <nestor/actors/registry.h>
#include <nestor/actors/remote/node.h>
#include <nestor/actors/runtime.h>
#include <nestor/actors/text_call.h>
#include <nestor/launch/cluster/actor_host.h>

namespace nestor::launch {

void ActorHost::describe(actors::MethodTable<ActorHost>& table) {
  table.type("actor_host").method("spawn", &ActorHost::spawn).method("call", &ActorHost::call);
}

void ActorHost::spawn(SpawnOrder order) {
  const auto& make = types_.find(order.type);
  actors::ActorOptions options;
  options.name = order.spec.name;
  options.max_concurrency = static_cast<std::size_t>(order.spec.max_concurrency);
  actors::Decoder decoder(actors::Decoder::Owned(std::move(order.arguments)), runtime().node());
  make(runtime(), options, decoder);
  runtime()
      .registry()
      ->find(order.spec.name)
      ->on_death([report = report_, name = order.spec.name, number = order.number](const std::string& cause) {
        report(name, number, cause);
      });
}

actors::Future<std::string> ActorHost::call(std::string actor, std::string method, std::string arguments) {
  return actors::call_as_text(runtime(), actor, method, arguments);
}

}  // namespace nestor::launch
