// Waiting, cancelling, late replies, mailboxes, actors that call and watch each other.
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/runtime.h>

namespace nestor {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

struct Gates {
  std::shared_ptr<std::latch> entered = std::make_shared<std::latch>(1), open = std::make_shared<std::latch>(1);
};

class Gate : public Actor {
 public:
  explicit Gate(Gates gates = {}) : gates_(std::move(gates)) {}
  int pass(int n) {
    gates_.entered->count_down();
    gates_.open->wait();
    return n;
  }
  int quick(int n) {
    ++quick_calls_;
    return n;
  }
  int quick_calls() const { return quick_calls_; }
  void hold(std::shared_ptr<int> value) { held_ = std::move(value); }

 private:
  Gates gates_;
  int quick_calls_ = 0;
  std::shared_ptr<int> held_;
};

template <class E>
std::string thrown(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

TEST(Future, WaitsHonourTheirLimits) {
  Gates gates;
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate", gates);
  auto slow = gate.call(&Gate::pass, 1);
  const auto start = Clock::now();
  EXPECT_FALSE(slow.wait_for(5ms));
  EXPECT_EQ(thrown<actors::CallTimeout>([&] { slow.get_for(5ms); }), "gate: no result within 5 ms");
  EXPECT_FALSE(slow.wait_for(0ms));
  EXPECT_FALSE(slow.wait_for(-1s));
  EXPECT_GE(Clock::now() - start, 10ms);
  EXPECT_FALSE(slow.ready());
  EXPECT_TRUE(slow.valid());
  gates.open->count_down();
  EXPECT_EQ(slow.get_for(std::chrono::nanoseconds::max()), 1);
  EXPECT_FALSE(slow.valid());
  EXPECT_THAT(thrown<actors::Error>([&] { slow.get(); }), HasSubstr("taken before"));
}

TEST(Future, WaitAnyAndWaitAll) {
  Gates gates;
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate", gates);
  auto other = runtime.spawn<Gate>("other");
  std::vector<Future<int>> futures;
  futures.push_back(gate.call(&Gate::pass, 1));
  futures.emplace_back();  // an empty one is passed over
  EXPECT_EQ(wait_any(futures, 2ms), std::nullopt);
  EXPECT_FALSE(wait_all(futures, 2ms));
  futures.push_back(other.call(&Gate::quick, 2));
  EXPECT_EQ(wait_any(futures), 2u);
  EXPECT_EQ(futures[2].get(), 2);
  std::thread opener([&] { gates.open->count_down(); });
  EXPECT_EQ(wait_any(futures), 0u);
  EXPECT_TRUE(wait_all(futures));
  opener.join();
  EXPECT_EQ(wait_any(std::vector<Future<int>>{}), std::nullopt);
}

TEST(Future, WaitAnyEndsWhenAnActorDies) {
  Gates gates;
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate", gates);
  std::vector<Future<int>> futures;
  futures.push_back(gate.call(&Gate::pass, 1));
  gates.entered->wait();
  std::thread killer([&] { gate.kill("test"); });
  EXPECT_EQ(wait_any(futures), 0u);
  EXPECT_THROW(futures[0].get(), actors::ActorDied);
  killer.join();
  gates.open->count_down();
}

TEST(Future, CancelEndsTheWaitingAndAQueuedCallIsNeverRun) {
  Gates gates;
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate", gates);
  auto running = gate.call(&Gate::pass, 1);
  auto queued = gate.call(&Gate::quick, 2);
  gates.entered->wait();
  EXPECT_TRUE(queued.cancel());
  EXPECT_FALSE(queued.cancel());
  EXPECT_EQ(thrown<actors::CallCancelled>([&] { queued.get(); }), "gate: the call was cancelled");
  auto shared = std::make_shared<Future<int>>(std::move(running));
  std::thread canceller([state = shared->state()] {
    state->fail(std::make_exception_ptr(actors::CallCancelled("gate", "cancelled from another thread")));
  });
  EXPECT_THROW(shared->get(), actors::CallCancelled);
  canceller.join();
  gates.open->count_down();
  EXPECT_EQ(gate.call(&Gate::quick_calls).get(), 0);
}

TEST(Future, DroppedFuturesAreFineAndTheCallsRun) {
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate");
  for (int i = 0; i < 100; ++i) gate.call(&Gate::quick, i);
  EXPECT_EQ(gate.call(&Gate::quick_calls).get(), 100);
}

TEST(Future, ArgumentsAreGoneWhenTheResultIsThere) {
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate");
  auto value = std::make_shared<int>(1);
  std::weak_ptr<int> weak = value;
  auto unused = gate.run([value = std::move(value)](Gate&) { return *value; });
  EXPECT_EQ(unused.get(), 1);
  auto seen = std::make_shared<int>(2);
  weak = seen;
  gate.call(&Gate::hold, std::move(seen)).get();
  gate.call(&Gate::hold, nullptr).get();
  EXPECT_TRUE(weak.expired());
}

/// Replies later, by promises that it keeps.
class Desk : public Actor {
 public:
  Future<int> ask(int id) {
    if (id < 0) return {};
    if (id == 0) throw std::runtime_error("closed");
    waiting_.emplace_back();
    return waiting_.back().future();
  }
  int answer(int value) {
    for (auto& promise : waiting_) promise.set_value(value);
    return static_cast<int>(std::exchange(waiting_, {}).size());
  }
  void forget() { waiting_.clear(); }

 private:
  std::vector<Promise<int>> waiting_;
};

TEST(Promise, AMethodRepliesLater) {
  Runtime runtime;
  auto desk = runtime.spawn<Desk>("desk");
  Future<int> first = desk.call(&Desk::ask, 1), second = desk.call(&Desk::ask, 2);
  EXPECT_EQ(desk.call(&Desk::answer, 42).get(), 2);
  EXPECT_EQ(first.get(), 42);
  EXPECT_EQ(second.get(), 42);
  EXPECT_THAT(thrown<actors::CallFailed>([&] { desk.call(&Desk::ask, 0).get(); }), HasSubstr("desk: closed"));
  EXPECT_THAT(thrown<actors::CallFailed>([&] { desk.call(&Desk::ask, -1).get(); }), HasSubstr("empty future"));
}

TEST(Promise, DroppedOrDeadNeverHangs) {
  Runtime runtime;
  auto desk = runtime.spawn<Desk>("desk");
  auto dropped = desk.call(&Desk::ask, 1);
  desk.call(&Desk::forget).get();
  EXPECT_THAT(thrown<actors::Error>([&] { dropped.get(); }), HasSubstr("dropped without a value"));
  std::vector<Future<int>> many;
  for (int i = 0; i < 100; ++i) many.push_back(desk.call(&Desk::ask, 1));
  desk.call(&Desk::answer, 1).get();
  for (auto& future : many) EXPECT_EQ(future.get(), 1);
  auto deferred = desk.call(&Desk::ask, 1);
  desk.run([](Desk&) {}).get();
  desk.kill("test");
  EXPECT_EQ(thrown<actors::ActorDied>([&] { deferred.get(); }), "desk: test");
}

TEST(Promise, OnReadyRunsOnceWhenComplete) {
  Promise<int> promise;
  Future<int> future = promise.future();
  int calls = 0;
  future.on_ready([&] { ++calls; });
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(promise.set_value(1));
  EXPECT_FALSE(promise.set_value(2));
  EXPECT_EQ(calls, 1);
  future.on_ready([&] { ++calls; });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(future.get(), 1);
}

/// Calls itself and others from inside.
class Caller : public Actor {
 public:
  int value() { return 1; }
  int ask_self() { return self(this).call(&Caller::value).get(); }
  int ask_self_bounded() { return self(this).call(&Caller::value).get_for(10s); }
  int ask_self_later() {
    self(this).call(&Caller::value);  // fine: nobody waits
    return 2;
  }
  int ask(Handle<Caller> other) { return other.call(&Caller::value).get(); }
  int ask_to_ask(Handle<Caller> other) { return other.call(&Caller::ask, self(this)).get(); }
  int ask_by_name(std::string name) { return runtime().find<Caller>(name).call(&Caller::value).get(); }
  int spawn_child() { return runtime().spawn<Caller>(name() + "/child").call(&Caller::value).get(); }
  void shut_down() { runtime().shutdown(1s); }
};

TEST(Deadlock, WaitingForOneselfIsAnError) {
  Runtime runtime;
  auto a = runtime.spawn<Caller>("a"), b = runtime.spawn<Caller>("b");
  const std::string error = thrown<actors::CallFailed>([&] { a.call(&Caller::ask_self).get(); });
  EXPECT_THAT(error, HasSubstr("would wait for itself for ever: a -> a"));
  EXPECT_THROW(a.call(&Caller::ask_self_bounded).get(), actors::CallFailed);
  EXPECT_EQ(a.call(&Caller::ask_self_later).get(), 2);
  EXPECT_EQ(a.call(&Caller::ask, b).get(), 1);
  EXPECT_THAT(thrown<actors::CallFailed>([&] { a.call(&Caller::ask_to_ask, b).get(); }),
              testing::AnyOf(HasSubstr("b -> a -> b"), HasSubstr("a -> b -> a")));
  b.call(&Caller::value).get();  // whichever of the two was refused, both are idle again
  a.call(&Caller::value).get();
  EXPECT_EQ(a.call(&Caller::ask_by_name, "b").get(), 1) << "both live on";
}

TEST(Deadlock, AWaiterThatIsWakingUpIsNoDeadlock) {
  // a answers b and at once waits for b, which may not have woken yet.
  Runtime runtime;
  auto a = runtime.spawn<Caller>("a"), b = runtime.spawn<Caller>("b");
  for (int i = 0; i < 500; ++i) {
    std::latch asked(1);
    auto waits = b.run([a, &asked](Caller&) {
      auto answer = a.call(&Caller::value);
      asked.count_down();
      return answer.get();
    });
    asked.wait();
    ASSERT_EQ(a.call(&Caller::ask, b).get(), 1);
    EXPECT_EQ(waits.get(), 1);
  }
}

TEST(Deadlock, ActorsSpawnOthersButCannotShutTheirRuntimeDown) {
  Runtime runtime;
  auto a = runtime.spawn<Caller>("a");
  EXPECT_EQ(a.call(&Caller::spawn_child).get(), 1);
  EXPECT_TRUE(runtime.find<Caller>("a/child").alive());
  EXPECT_THAT(thrown<actors::CallFailed>([&] { a.call(&Caller::shut_down).get(); }), HasSubstr("own runtime"));
}

TEST(Deadlock, AConstructorThatWaitsForItsSpawnerIsAnError) {
  struct Child : Actor {
    explicit Child(Handle<Caller> parent) { parent.call(&Caller::value).get(); }
  };
  Runtime runtime;
  auto parent = runtime.spawn<Caller>("parent");
  auto spawned =
      parent.run([parent](Caller&) mutable { parent.cell().registry()->runtime().spawn<Child>("c", parent); });
  EXPECT_THAT(thrown<actors::CallFailed>([&] { spawned.get(); }), HasSubstr("would wait for itself"));
}

TEST(Mailbox, AFullOneBlocksItsCallersUpToTheirLimit) {
  Gates gates;
  Runtime runtime;
  auto gate = runtime.spawn<Gate>(ActorOptions{.name = "gate", .mailbox_limit = 2, .send_limit = 5ms}, gates);
  auto running = gate.call(&Gate::pass, 1);
  gates.entered->wait();
  gate.call(&Gate::quick, 1);
  gate.call(&Gate::quick, 2);
  EXPECT_THAT(thrown<actors::CallTimeout>([&] { gate.call(&Gate::quick, 3); }),
              HasSubstr("gate: its mailbox is full (2 calls)"));
  gates.open->count_down();
  EXPECT_EQ(running.get(), 1);
  EXPECT_EQ(gate.call(&Gate::quick_calls).get_for(10s), 2);
}

TEST(Mailbox, CallersThatWaitForRoomGoOnOrLearnOfTheDeath) {
  for (const bool dies : {false, true}) {
    Gates gates;
    Runtime runtime;
    auto gate = runtime.spawn<Gate>(ActorOptions{.name = "gate", .mailbox_limit = 1}, gates);
    auto running = gate.call(&Gate::pass, 1);
    gates.entered->wait();
    auto queued = gate.call(&Gate::quick, 1);
    std::thread caller([&] {
      auto late = gate.call(&Gate::quick, 2);  // no room until the gate opens or the actor dies
      if (dies) {
        EXPECT_THROW(late.get(), actors::ActorDied);
      } else {
        EXPECT_EQ(late.get(), 2);
      }
    });
    if (dies) gate.kill("test");
    gates.open->count_down();
    caller.join();
  }
}

class Watcher : public Actor {
 public:
  void watch(Handle<Gate> other) { monitor(other); }
  void on_down(const Down& down) override {
    if (down.cause == "poison") throw std::runtime_error("cannot bear it");
    seen_.push_back(down.actor + ": " + down.cause);
  }
  std::vector<std::string> seen() const { return seen_; }

 private:
  std::vector<std::string> seen_;
};

TEST(Monitor, DeathsArriveOnceWithTheirCause) {
  Runtime runtime;
  auto watcher = runtime.spawn<Watcher>("watcher");
  auto a = runtime.spawn<Gate>("a"), b = runtime.spawn<Gate>("b");
  watcher.call(&Watcher::watch, a).get();
  watcher.call(&Watcher::watch, b).get();
  a.kill("oops");
  b.stop().get();
  watcher.call(&Watcher::watch, a).get();  // of a dead one: at once
  watcher.run([](Watcher&) {}).get();
  EXPECT_THAT(watcher.call(&Watcher::seen).get(), testing::ElementsAre("a: oops", "b: it was stopped", "a: oops"));
}

TEST(Monitor, AHookThatThrowsEndsTheActorWithThatCause) {
  Runtime runtime;
  auto watcher = runtime.spawn<Watcher>("watcher");
  auto a = runtime.spawn<Gate>("a");
  watcher.call(&Watcher::watch, a).get();
  a.kill("poison");
  watcher.stop().get();
  EXPECT_EQ(watcher.cell().death_cause(), "on_down threw: cannot bear it");
}

TEST(Timer, RunsAfterItsDelayUnlessTheActorIsDead) {
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate"), dead = runtime.spawn<Gate>("dead");
  Promise<Clock::time_point> promise;
  auto fired = promise.future();
  const auto start = Clock::now();
  auto shared = std::make_shared<Promise<Clock::time_point>>(std::move(promise));
  gate.run_after(10ms, [shared](Gate&) { shared->set_value(Clock::now()); });
  dead.run_after(1ms, [](Gate&) { FAIL() << "ran in a dead actor"; });
  dead.run_after(1h, [](Gate&) { FAIL() << "ran early"; });
  dead.kill("test");
  EXPECT_GE(fired.get() - start, 10ms);
}

TEST(Soak, FourThreadsCallKillAndRespawn) {
  Runtime runtime;
  auto target = runtime.spawn<Gate>("target");
  std::vector<std::thread> threads;
  std::atomic<int> answered{0}, died{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        try {
          auto handle = runtime.find<Gate>("target");
          std::vector<Future<int>> futures;
          for (int k = 0; k < 4; ++k) futures.push_back(handle.call(&Gate::quick, k));
          if (i % 50 == 49 && t == 0) {
            handle.kill("rotation");
            runtime.spawn<Gate>("target");
          }
          for (auto& future : futures) answered += future.get() >= 0 ? 1 : 0;
        } catch (const actors::Error&) {
          ++died;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(answered, 0);
  EXPECT_EQ(runtime.find<Gate>("target").call(&Gate::quick, 5).get(), 5);
}

}  // namespace
}  // namespace nestor
