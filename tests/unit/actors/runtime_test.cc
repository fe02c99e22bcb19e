// Spawning, calling, finding and ending actors. Deterministic: gates (latches) order events, never sleeps.
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/runtime.h>

namespace nestor {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Counter : public Actor {
 public:
  explicit Counter(int start) : value_(start) {}
  static void describe(MethodTable<Counter>& table) {
    table.type("counter").method("add", &Counter::add).method("fail", &Counter::fail);
  }
  int add(int n) { return value_ += n; }
  int value() const { return value_; }
  void set(const std::string& text) { value_ = std::stoi(text); }
  int fail(std::string why) { throw std::invalid_argument(why); }
  void throw_int() { throw 7; }
  std::unique_ptr<int> box(std::unique_ptr<int> n) {
    *n += value_;
    return n;
  }
  const std::string& label() const noexcept { return label_; }
  std::thread::id thread() const { return std::this_thread::get_id(); }
  std::string own_name() const { return name(); }
  void leave(std::string cause) { quit(cause); }

 private:
  int value_;
  std::string label_ = "label";
};

/// What `body` throws, as text; empty where it does not.
template <class E>
std::string thrown(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

TEST(Runtime, CallsRunInOrderAndReturn) {
  Runtime runtime;
  auto counter = runtime.spawn<Counter>("counter", 5);
  Future<int> first = counter.call(&Counter::add, 3);
  Future<int> second = counter.call(&Counter::add, 4);
  EXPECT_EQ(second.get(), 12);
  EXPECT_EQ(first.get(), 8);
  counter.call(&Counter::set, "40").get();  // converted to std::string at the call
  EXPECT_EQ(counter.call(&Counter::value).get(), 40);
  EXPECT_EQ(counter.call(&Counter::label).get(), "label");
  EXPECT_EQ(counter.call(&Counter::own_name).get(), "counter");
}

TEST(Runtime, MoveOnlyArgumentsAndResultsAndFunctions) {
  Runtime runtime;
  auto counter = runtime.spawn<Counter>("counter", 5);
  std::unique_ptr<int> box = counter.call(&Counter::box, std::make_unique<int>(2)).get();
  EXPECT_EQ(*box, 7);
  auto result = counter.run([box = std::move(box)](Counter& c) mutable { return c.box(std::move(box)); });
  EXPECT_EQ(*result.get(), 12);
}

TEST(Runtime, AnActorKeepsOneThread) {
  Runtime runtime;
  auto counter = runtime.spawn<Counter>("counter", 0);
  const auto first = counter.call(&Counter::thread).get();
  EXPECT_EQ(counter.call(&Counter::thread).get(), first);
  EXPECT_NE(first, std::this_thread::get_id());
}

TEST(Runtime, ErrorsNameActorAndMethodAndTheActorLivesOn) {
  Runtime runtime;
  auto counter = runtime.spawn<Counter>("counter", 1);
  auto failed = counter.call(&Counter::fail, "no such word");
  try {
    failed.get();
    FAIL() << "did not throw";
  } catch (const actors::CallFailed& error) {
    EXPECT_STREQ(error.what(), "counter.fail: no such word");
    EXPECT_EQ(error.actor(), "counter");
    EXPECT_THROW(std::rethrow_exception(error.cause()), std::invalid_argument);
  }
  EXPECT_THAT(thrown<actors::CallFailed>([&] { counter.call(&Counter::throw_int).get(); }),
              HasSubstr("counter: threw something"));
  EXPECT_EQ(counter.call(&Counter::add, 1).get(), 2);
}

TEST(Runtime, AConstructorThatThrowsFailsSpawnAndFreesTheName) {
  struct Picky : Actor {
    explicit Picky(bool ok) {
      if (!ok) throw std::runtime_error("bad port");
    }
  };
  Runtime runtime;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(thrown<actors::CallFailed>([&] { runtime.spawn<Picky>("picky", false); }),
              "picky: its constructor threw: bad port");
  }
  EXPECT_TRUE(runtime.spawn<Picky>("picky", true).alive());
}

TEST(Runtime, NamesAreUniqueAndWellFormed) {
  Runtime runtime;
  runtime.spawn<Counter>("a", 1);
  EXPECT_THAT(thrown<actors::Error>([&] { runtime.spawn<Counter>("a", 2); }), HasSubstr("lives already"));
  EXPECT_THAT(thrown<actors::Error>([&] { runtime.spawn<Counter>("", 2); }), HasSubstr("is no name"));
  EXPECT_THAT(thrown<actors::Error>([&] { runtime.spawn<Counter>("two words", 2); }), HasSubstr("is no name"));
  EXPECT_EQ(runtime.find<Counter>("a").call(&Counter::value).get(), 1);
}

TEST(Runtime, FindListsThoseThatExist) {
  Runtime runtime;
  EXPECT_THAT(thrown<actors::Error>([&] { runtime.find<Counter>("x"); }), HasSubstr("no actor lives"));
  auto a = runtime.spawn<Counter>("alpha", 1);
  runtime.spawn<Counter>("beta", 1);
  EXPECT_EQ(thrown<actors::Error>([&] { runtime.find<Counter>("x"); }), "x: no such actor (there are: alpha, beta)");
  EXPECT_TRUE(runtime.find<Counter>("alpha") == a);
  a.kill("retired");
  EXPECT_EQ(thrown<actors::Error>([&] { runtime.find<Counter>("alpha"); }),
            "alpha: it died: retired (there are: beta)");
  struct Other : Actor {};
  EXPECT_THAT(thrown<actors::Error>([&] { runtime.find<Other>("beta"); }), HasSubstr("is a counter, not a "));
  ASSERT_EQ(runtime.list().size(), 2u);
  EXPECT_EQ(runtime.list()[0].state, "ALIVE");
  EXPECT_EQ(runtime.list()[1].death_cause, "retired");
}

/// An actor whose method waits at a gate, so that a test decides when it goes on.
class Gate : public Actor {
 public:
  Gate(std::shared_ptr<std::latch> entered, std::shared_ptr<std::latch> open, std::vector<std::string>* log = nullptr)
      : entered_(std::move(entered)), open_(std::move(open)), log_(log) {}
  ~Gate() override { write("destroyed"); }
  void on_stop() override { write("stopped"); }
  int pass(int n) {
    entered_->count_down();
    open_->wait();
    write("passed");
    return n;
  }
  int quick(int n) { return n; }

 private:
  void write(const char* line) {
    if (log_ != nullptr) log_->emplace_back(line);
  }
  std::shared_ptr<std::latch> entered_, open_;
  std::vector<std::string>* log_;
};

struct Gates {
  std::shared_ptr<std::latch> entered = std::make_shared<std::latch>(1), open = std::make_shared<std::latch>(1);
};

TEST(Runtime, KillFailsRunningAndQueuedCallsAtOnce) {
  Gates gates;
  std::vector<std::string> log;
  {
    Runtime runtime;
    auto gate = runtime.spawn<Gate>("gate", gates.entered, gates.open, &log);
    auto running = gate.call(&Gate::pass, 1);
    auto queued = gate.call(&Gate::quick, 2);
    gates.entered->wait();
    EXPECT_TRUE(gate.kill("the test says so"));
    EXPECT_FALSE(gate.kill("again"));
    EXPECT_FALSE(gate.alive());
    EXPECT_EQ(thrown<actors::ActorDied>([&] { running.get(); }), "gate: the test says so");
    EXPECT_EQ(thrown<actors::ActorDied>([&] { queued.get(); }), "gate: the test says so");
    EXPECT_EQ(thrown<actors::ActorDied>([&] { gate.call(&Gate::quick, 3).get(); }), "gate: the test says so");
    // The name is free although the old method is still running.
    EXPECT_TRUE(runtime.spawn<Gate>("gate", gates.entered, gates.open).alive());
    gates.open->count_down();
  }
  EXPECT_THAT(log, testing::ElementsAre("passed", "stopped", "destroyed"));
}

TEST(Runtime, StopDrainsThenEnds) {
  Gates gates;
  std::vector<std::string> log;
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("gate", gates.entered, gates.open, &log);
  auto running = gate.call(&Gate::pass, 1);
  auto queued = gate.call(&Gate::quick, 2);
  Future<void> stopped = gate.stop();
  auto late = gate.call(&Gate::quick, 3);
  gates.open->count_down();
  stopped.get();
  EXPECT_EQ(running.get(), 1);
  EXPECT_EQ(queued.get(), 2);
  EXPECT_EQ(thrown<actors::ActorDied>([&] { late.get(); }), "gate: it was stopped");
  EXPECT_THAT(log, testing::ElementsAre("passed", "stopped", "destroyed"));
  gate.stop().get();  // of a dead actor: complete at once
}

TEST(Runtime, QuitEndsAfterTheCurrentMethod) {
  Runtime runtime;
  auto counter = runtime.spawn<Counter>("counter", 1);
  auto left = counter.call(&Counter::leave, "work done");
  EXPECT_NO_THROW(left.get());
  counter.stop().get();
  EXPECT_EQ(thrown<actors::ActorDied>([&] { counter.call(&Counter::value).get(); }), "counter: work done");
}

TEST(Runtime, TwoRuntimesAreIndependent) {
  Runtime one, two;
  auto a = one.spawn<Counter>("same", 1);
  auto b = two.spawn<Counter>("same", 2);
  one.shutdown(10s);
  EXPECT_EQ(b.call(&Counter::value).get(), 2);
  EXPECT_EQ(thrown<actors::ActorDied>([&] { a.call(&Counter::value).get(); }), "same: the runtime was shut down");
}

TEST(Runtime, HandlesOutliveTheRuntime) {
  Handle<Counter> counter;
  EXPECT_THROW(counter.call(&Counter::value), actors::Error);
  {
    Runtime runtime;
    counter = runtime.spawn<Counter>("counter", 1);
  }
  EXPECT_FALSE(counter.alive());
  EXPECT_THROW(counter.call(&Counter::value).get(), actors::ActorDied);
}

TEST(Runtime, ShutdownIsBoundedAndNamesTheSurvivors) {
  Gates gates;
  Runtime runtime;
  auto gate = runtime.spawn<Gate>("stubborn", gates.entered, gates.open);
  runtime.spawn<Counter>("easy", 1);
  auto running = gate.call(&Gate::pass, 1);
  gates.entered->wait();
  const std::string error = thrown<actors::Error>([&] { runtime.shutdown(20ms); });
  EXPECT_THAT(error, HasSubstr("did not end within 20 ms: stubborn"));
  EXPECT_THROW(running.get(), actors::ActorDied);
  EXPECT_THAT(thrown<actors::Error>([&] { runtime.spawn<Counter>("late", 1); }), HasSubstr("shutting down"));
  gates.open->count_down();
  runtime.shutdown(10s);
}

TEST(Runtime, ASurvivorIsReportedByTheDestructorNotWaitedForForEver) {
  Gates gates;
  Handle<Gate> gate;
  testing::internal::CaptureStderr();
  {
    Runtime runtime(RuntimeOptions{.shutdown_limit = 20ms});
    gate = runtime.spawn<Gate>("stubborn", gates.entered, gates.open);
    gate.call(&Gate::pass, 1);
    gates.entered->wait();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("nestor: runtime: actors did not end"));
  Future<void> ended = gate.stop();
  gates.open->count_down();
  ended.get();  // its thread is through with the latches
}

}  // namespace
}  // namespace nestor
