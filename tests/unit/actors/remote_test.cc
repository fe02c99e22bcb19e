#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nestor/actors/messages.h>
#include <nestor/actors/pool.h>
#include <nestor/actors/remote/node.h>

// Actors of other processes: here two or three nodes in one process, each with a runtime and a link of its own.

namespace nestor::actors::remote {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Range {
  int first = 0;
  std::optional<std::string> label;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(first, label);
  }
};

class Counter final : public Actor {
 public:
  using SpawnArguments = std::tuple<std::int64_t>;
  explicit Counter(std::int64_t start = 0) : value_(start) {
    if (start < 0) throw std::runtime_error("counts from 0 up");
  }
  static void describe(MethodTable<Counter>& table) {
    table.type("test_counter")
        .method("add", &Counter::add)
        .method("fail", &Counter::fail)
        .method("range", &Counter::range)
        .method("twice", &Counter::twice)
        .method("later", &Counter::later)
        .method("release", &Counter::release)
        .method("add_through", &Counter::add_through)
        .method("lambda_only", &Counter::lambda_only);
  }
  std::int64_t add(std::int64_t by) { return value_ += by; }
  void fail() { throw std::runtime_error("on purpose"); }
  Range range(const std::map<std::string, std::vector<Range>>& ranges) { return ranges.at("x").back(); }
  torch::Tensor twice(torch::Tensor tensor) { return tensor.defined() ? 2 * tensor : tensor; }
  Future<std::int64_t> later() {
    waiting_.emplace_back();
    return waiting_.back().future();
  }
  void release() {
    for (auto& promise : waiting_) promise.set_value(value_);
    waiting_.clear();
  }
  std::int64_t add_through(Handle<Counter> other, std::int64_t by) { return other.call(&Counter::add, by).get(); }
  void lambda_only(std::function<void()>) {}
  void unlisted() {}

 private:
  std::int64_t value_;
  std::vector<Promise<std::int64_t>> waiting_;
};

class OtherType final : public Actor {};

/// A head and members, each as in a process of its own.
class RemoteTest : public testing::Test {
 protected:
  struct Place {
    Runtime runtime;
    std::unique_ptr<Node> node;
  };

  RemoteTest() {
    head_.node = std::make_unique<Node>(head_.runtime, NodeInfo{},
                                        Node::Head{"tcp://127.0.0.1:0", head_keys_, {{member_keys_.public_key, "m"}}});
  }
  std::unique_ptr<Place> join(const std::string& name, NodeEvents events = {}) {
    auto place = std::make_unique<Place>();
    NodeInfo info;
    info.name = name;
    info.kind = "worker";
    place->node = std::make_unique<Node>(
        place->runtime, info, Node::Member{head_.node->endpoint(), head_keys_.public_key, member_keys_}, events);
    place->node->wait_joined(10s);
    return place;
  }

  const comm::LinkKeys head_keys_ = comm::make_link_keys(), member_keys_ = comm::make_link_keys();
  Place head_;
};

TEST_F(RemoteTest, CallsLookAsInOneProcess) {
  auto a = join("a");
  a->runtime.spawn<Counter>("counter");
  const auto counter = head_.node->find<Counter>("a", "counter");
  EXPECT_EQ(counter.call(&Counter::add, 5).get(), 5);
  std::vector<Future<std::int64_t>> futures;
  for (int i = 0; i < 2000; ++i) futures.push_back(counter.call(&Counter::add, 1));
  EXPECT_EQ(futures.back().get(), 2005);
  EXPECT_EQ(futures.front().get(), 6) << "in the order of the calls";
}

TEST_F(RemoteTest, ValuesOfEveryKindTravel) {
  auto a = join("a");
  a->runtime.spawn<Counter>("counter");
  const auto counter = head_.node->find<Counter>("a", "counter");
  const Range back =
      counter.call(&Counter::range, std::map<std::string, std::vector<Range>>{{"x", {{1, {}}, {7, "seven"}}}}).get();
  EXPECT_EQ(back.first, 7);
  EXPECT_EQ(back.label, "seven");
  const auto tensor = torch::arange(12, torch::kFloat64).view({3, 4}).t();
  EXPECT_TRUE(torch::equal(counter.call(&Counter::twice, tensor).get(), 2 * tensor));
  EXPECT_FALSE(counter.call(&Counter::twice, torch::Tensor()).get().defined());
  EXPECT_EQ(counter.call(&Counter::twice, torch::empty({0, 3})).get().sizes(), (std::vector<std::int64_t>{0, 3}));
}

TEST_F(RemoteTest, AMethodThatRepliesLaterDoes) {
  auto a = join("a");
  a->runtime.spawn<Counter>("counter");
  const auto counter = head_.node->find<Counter>("a", "counter");
  auto first = counter.call(&Counter::later), second = counter.call(&Counter::later);
  counter.call(&Counter::add, 3).get();
  EXPECT_FALSE(first.ready());
  counter.call(&Counter::release).get();
  EXPECT_EQ(first.get(), 3);
  EXPECT_EQ(second.get(), 3);
}

TEST_F(RemoteTest, FailuresNameActorMethodAndCause) {
  auto a = join("a");
  a->runtime.spawn<Counter>("counter");
  const auto counter = head_.node->find<Counter>("a", "counter");
  EXPECT_THAT([&] { counter.call(&Counter::fail).get(); }, ThrowsMessage<CallFailed>("counter.fail: on purpose"));
  EXPECT_EQ(counter.call(&Counter::add, 1).get(), 1) << "it lives on";
  EXPECT_THAT([&] { counter.call(&Counter::unlisted).get(); },
              ThrowsMessage<Error>(HasSubstr("list it in describe()")));
  EXPECT_THAT([&] { counter.call(&Counter::lambda_only, [] {}).get(); },
              ThrowsMessage<Error>(HasSubstr("only methods")));
  EXPECT_THAT([&] { counter.run([](Counter&) {}).get(); }, ThrowsMessage<Error>(HasSubstr("only methods")));
}

TEST_F(RemoteTest, FindSaysWhatThereIs) {
  auto a = join("a");
  a->runtime.spawn<Counter>("counter");
  EXPECT_THAT([&] { head_.node->find<Counter>("a", "missing"); },
              ThrowsMessage<Error>(testing::AllOf(HasSubstr("no such actor"), HasSubstr("counter"))));
  EXPECT_THAT([&] { head_.node->find<OtherType>("a", "counter"); },
              ThrowsMessage<Error>(HasSubstr("is a test_counter")));
  EXPECT_THAT([&] { head_.node->find<Counter>("b", "counter"); },
              ThrowsMessage<Error>(HasSubstr("b is not in the cluster")));
}

TEST_F(RemoteTest, MembersReachEachOtherAndHandlesCanBeSent) {
  auto a = join("a"), b = join("b");
  a->runtime.spawn<Counter>("counter");
  b->runtime.spawn<Counter>("other", std::int64_t{100});
  const auto at_a = b->node->find<Counter>("a", "counter");
  const auto own = b->node->find<Counter>("b", "other");
  EXPECT_EQ(own.cell().elsewhere(), nullptr) << "one's own actor needs no proxy";
  EXPECT_EQ(at_a.call(&Counter::add_through, own, 1).get(), 101) << "b's actor, called by a's";
  const auto seen_by_head = head_.node->find<Counter>("a", "counter");
  EXPECT_EQ(head_.node->find<Counter>("b", "other").call(&Counter::add_through, seen_by_head, 2).get(), 2);
}

TEST_F(RemoteTest, SpawnsWhatIsRegisteredAndNothingElse) {
  auto a = join("a");
  a->node->types().add<Counter>();
  ActorOptions options;
  options.name = "made";
  const auto made = head_.node->spawn<Counter>("a", options, 40);
  EXPECT_EQ(made.call(&Counter::add, 2).get(), 42);
  EXPECT_THAT([&] { head_.node->spawn<Counter>("a", options, 1); }, ThrowsMessage<Error>(HasSubstr("lives already")));
  options.name = "second";
  EXPECT_THAT([&] { head_.node->spawn<Counter>("a", options, -1); },
              ThrowsMessage<Error>(HasSubstr("counts from 0 up")));
  EXPECT_THAT([&] { head_.node->spawn<OtherType>("a", options); },
              ThrowsMessage<Error>(HasSubstr("there are: test_counter")));
}

TEST_F(RemoteTest, DeathComesWithItsCause) {
  auto a = join("a");
  const auto local = a->runtime.spawn<Counter>("counter");
  const auto counter = head_.node->find<Counter>("a", "counter");
  auto waiting = counter.call(&Counter::later);
  counter.call(&Counter::add, 1).get();
  local.kill("its time had come");
  EXPECT_THAT([&] { waiting.get(); }, ThrowsMessage<ActorDied>("counter: its time had come"));
  detail::Waiter death;
  counter.cell().on_death([&](const std::string&) { death.signal(); });
  death.wait_until(detail::Deadline::max());
  EXPECT_THAT([&] { counter.call(&Counter::add, 1).get(); }, ThrowsMessage<ActorDied>("counter: its time had come"));
}

TEST_F(RemoteTest, KillAndStopReachAcross) {
  auto a = join("a");
  const auto first = a->runtime.spawn<Counter>("first"), second = a->runtime.spawn<Counter>("second");
  head_.node->find<Counter>("a", "first").stop().get();
  EXPECT_FALSE(first.alive());
  const auto proxy = head_.node->find<Counter>("a", "second");
  detail::Waiter death;
  second.cell().on_death([&](const std::string& cause) {
    EXPECT_EQ(cause, "enough");
    death.signal();
  });
  EXPECT_TRUE(proxy.kill("enough"));
  death.wait_until(detail::Deadline::max());
}

TEST_F(RemoteTest, ALeavingNodeFailsTheCallsUnderWay) {
  auto a = join("a"), b = join("b");
  a->runtime.spawn<Counter>("counter");
  auto from_head = head_.node->find<Counter>("a", "counter").call(&Counter::later);
  const auto from_b = b->node->find<Counter>("a", "counter");
  auto waiting = from_b.call(&Counter::later);
  from_b.call(&Counter::add, 1).get();
  a->node.reset();
  EXPECT_THAT([&] { from_head.get(); }, ThrowsMessage<ActorDied>(HasSubstr("left")));
  EXPECT_THAT([&] { waiting.get(); }, ThrowsMessage<ActorDied>(HasSubstr("left")));
}

TEST_F(RemoteTest, WhoWatchedTheProcessSaysWhatBecameOfIt) {
  auto late = std::make_unique<Place>();
  detail::Waiter gone;
  NodeEvents events;
  events.disconnected = [&](const NodeInfo& info, const std::string&) {
    EXPECT_EQ(info.name, "a");
    gone.signal();
  };
  late->node = std::make_unique<Node>(
      late->runtime, NodeInfo{}, Node::Head{"tcp://127.0.0.1:0", head_keys_, {{member_keys_.public_key, "m"}}}, events);
  std::swap(head_.node, late->node);
  auto a = join("a");
  a->runtime.spawn<Counter>("counter");
  auto waiting = head_.node->find<Counter>("a", "counter").call(&Counter::later);
  a->node.reset();
  gone.wait_until(detail::Deadline::max());
  EXPECT_FALSE(waiting.ready());
  head_.node->declare_lost("a", "signal 9 (Killed)");
  EXPECT_THAT([&] { waiting.get(); }, ThrowsMessage<ActorDied>("counter: signal 9 (Killed)"));
}

TEST_F(RemoteTest, TheHeadsEndEndsEveryCall) {
  auto a = join("a");
  head_.runtime.spawn<Counter>("counter");
  auto waiting = a->node->find<Counter>("head", "counter").call(&Counter::later);
  head_.node.reset();
  EXPECT_THAT([&] { waiting.get(); }, ThrowsMessage<ActorDied>(HasSubstr("lost the head")));
}

TEST_F(RemoteTest, JoiningSaysWhatFailed) {
  Place stranger;
  NodeInfo info;
  info.name = "stranger";
  info.kind = "worker";
  stranger.node = std::make_unique<Node>(
      stranger.runtime, info, Node::Member{head_.node->endpoint(), head_keys_.public_key, comm::make_link_keys()});
  EXPECT_THAT([&] { stranger.node->wait_joined(2s); }, ThrowsMessage<Error>(HasSubstr("head: cannot be joined: ")));
}

TEST_F(RemoteTest, TheHeadMayRefuse) {
  NodeEvents events;
  events.admit = [](const NodeInfo& info, const std::string& key) {
    return key == "m" && info.name == "b" ? "" : "there is no place for " + info.name;
  };
  Place other;
  other.node = std::make_unique<Node>(
      other.runtime, NodeInfo{}, Node::Head{"tcp://127.0.0.1:0", head_keys_, {{member_keys_.public_key, "m"}}}, events);
  std::swap(head_.node, other.node);
  EXPECT_THAT([&] { join("a"); }, ThrowsMessage<Error>(HasSubstr("there is no place for a")));
  EXPECT_EQ(join("b")->node->name(), "b");
}

TEST(Codec, MessagesOfTheSchedulerSurviveTheWire) {
  LanePlan plan;
  plan.plan_digest = 0x1234567890abcdefu;
  plan.lane = 3;
  plan.microbatch_order = {2, 0, 1};
  plan.pools = {{"vision", true, {0}, {0, 1, 0}}};
  plan.reductions = {{scheduler::ModuleId(1), {scheduler::LaneId(0), scheduler::LaneId(2)}}};
  scheduler::Operator op;
  op.kind = scheduler::OpKind::recv;
  op.peer = 7;
  op.end = 0.1;
  plan.row = {op, op};
  Encoder encoder;
  encoder(plan);
  const std::string bytes = encoder.take();
  LanePlan read;
  Decoder decoder(bytes);
  decoder(read).finish();
  EXPECT_EQ(read.plan_digest, plan.plan_digest);
  EXPECT_EQ(read.microbatch_order, plan.microbatch_order);
  EXPECT_EQ(read.pools[0].absent, plan.pools[0].absent);
  EXPECT_EQ(read.reductions[0].lanes[1].value, 2);
  ASSERT_EQ(read.row.size(), 2u);
  EXPECT_EQ(read.row[1].peer, 7);
  EXPECT_EQ(read.row[1].end, 0.1);
}

TEST(Codec, CutAndSpoiltBytesAreErrors) {
  LanePlan plan;
  plan.pools = {{"vision", true, {0}, {0, 1, 0}}};
  plan.microbatch_order = {1, 0};
  plan.row.resize(2);
  Encoder encoder;
  encoder(plan, torch::ones({2, 3}), std::string("text"));
  const std::string bytes = encoder.take();
  const auto read = [](std::string_view part) {
    LanePlan plan_read;
    torch::Tensor tensor;
    std::string text;
    Decoder decoder(part);
    decoder(plan_read, tensor, text).finish();
  };
  EXPECT_NO_THROW(read(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(read(std::string_view(bytes).substr(0, size)), Error) << "cut at " << size;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string spoilt = bytes;
    spoilt[at] = static_cast<char>(0xff);
    try {
      read(spoilt);  // another value, or an error: never more
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace nestor::actors::remote
