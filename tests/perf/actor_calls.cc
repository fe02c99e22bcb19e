// What a call of an actor costs within a process: round trip, pipelined, spawn, and the channels' hand-over.
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <nestor/actors/runtime.h>
#include <nestor/comm/comm.h>

namespace nestor {
namespace {

class Echo : public Actor {
 public:
  int echo(int n) { return n; }
};

void call_and_wait(benchmark::State& state) {
  Runtime runtime;
  auto echo = runtime.spawn<Echo>("echo");
  int n = 0;
  for (auto _ : state) n = echo.call(&Echo::echo, n).get() + 1;
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(call_and_wait)->UseRealTime();

void pipelined_calls(benchmark::State& state) {
  Runtime runtime;
  auto echo = runtime.spawn<Echo>("echo");
  std::vector<Future<int>> futures(1000);
  for (auto _ : state) {
    for (int i = 0; i < 1000; ++i) futures[static_cast<std::size_t>(i)] = echo.call(&Echo::echo, i);
    for (auto& future : futures) benchmark::DoNotOptimize(future.get());
  }
  state.SetItemsProcessed(1000 * state.iterations());
}
BENCHMARK(pipelined_calls)->UseRealTime();

void spawn_and_stop(benchmark::State& state) {
  Runtime runtime;
  for (auto _ : state) runtime.spawn<Echo>("echo").stop().get();
}
BENCHMARK(spawn_and_stop)->UseRealTime();

comm::Message message_of_one() {
  comm::Message message(1);
  message[0].owner = std::make_shared<int>(0);
  message[0].descriptor.shape = {2, 3};
  return message;
}

// Send, post and wait on one thread: what the executor pays for a transfer whose message is there.
void channel_hand_over(benchmark::State& state) {
  auto fabric = comm::make_inproc_fabric(2);
  std::uint64_t step = 0;
  comm::Message message = message_of_one();
  for (auto _ : state) {
    const comm::Key key{1, ++step, 7};
    bool ok = fabric->channel(0).send(1, key, std::move(message), comm::Deadline::max()).ok();
    ok = ok && fabric->channel(1).post_recv(0, key).ok();
    ok = ok && fabric->channel(1).wait(0, key, comm::Deadline::max(), &message).ok();
    if (!ok) state.SkipWithError("a transfer failed");
  }
}
BENCHMARK(channel_hand_over);

// There and back between two threads: two hand-overs and what the operating system takes to wake a thread.
void channel_ping_pong(benchmark::State& state) {
  auto fabric = comm::make_inproc_fabric(2);
  std::thread peer([&] {
    comm::Channel& channel = fabric->channel(1);
    for (std::uint64_t step = 1;; ++step) {
      comm::Message message;
      if (!channel.post_recv(0, {1, step, 7}).ok()) return;
      if (!channel.wait(0, {1, step, 7}, comm::Deadline::max(), &message).ok()) return;
      if (!channel.send(0, {1, step, 8}, std::move(message), comm::Deadline::max()).ok()) return;
    }
  });
  comm::Channel& channel = fabric->channel(0);
  comm::Message message = message_of_one();
  std::uint64_t step = 0;
  for (auto _ : state) {
    bool ok = channel.post_recv(1, {1, ++step, 8}).ok();
    ok = ok && channel.send(1, {1, step, 7}, std::move(message), comm::Deadline::max()).ok();
    ok = ok && channel.wait(1, {1, step, 8}, comm::Deadline::max(), &message).ok();
    if (!ok) state.SkipWithError("a transfer failed");
  }
  fabric->channel(1).abort(1, "done");
  peer.join();
}
BENCHMARK(channel_ping_pong)->UseRealTime();

}  // namespace
}  // namespace nestor

BENCHMARK_MAIN();
