#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <envelope.pb.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nestor/actors/pool.h>
#include <nestor/actors/remote/letter.h>
#include <nestor/actors/remote/node.h>
#include <nestor/actors/remote/outbox.h>
#include <nestor/actors/remote/transfers.h>

// Members that reach each other without the head, payloads of many messages, calls that are given up.

namespace nestor::actors::remote {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Ledger final : public Actor {
 public:
  static void describe(MethodTable<Ledger>& table) {
    table.type("test_ledger")
        .method("note", &Ledger::note)
        .method("weigh", &Ledger::weigh)
        .method("make", &Ledger::make)
        .method("notes", &Ledger::notes)
        .method("hold", &Ledger::hold)
        .method("open", &Ledger::open);
  }
  std::int64_t note(std::int64_t number) {
    notes_.push_back(number);
    return number;
  }
  double weigh(const torch::Tensor& tensor, std::int64_t number) {
    notes_.push_back(number);
    return tensor.sum().item<double>();
  }
  torch::Tensor make(std::int64_t floats) { return torch::ones({floats}); }
  std::vector<std::int64_t> notes() { return notes_; }
  Future<void> hold() {
    held_.emplace_back();
    return held_.back().future();
  }
  void open() {
    for (auto& promise : held_) promise.set_value();
    held_.clear();
  }

 private:
  std::vector<std::int64_t> notes_;
  std::vector<Promise<void>> held_;
};

class DirectTest : public testing::TestWithParam<bool> {  // by a link of one's own, or through the head
 protected:
  struct Place {
    Runtime runtime;
    std::unique_ptr<Node> node;
  };
  DirectTest() {
    NodeEvents events;
    events.disconnected = [](const NodeInfo&, const std::string&) {};  // deaths are told by the tests
    head_.node = std::make_unique<Node>(head_.runtime, NodeInfo{},
                                        Node::Head{"tcp://127.0.0.1:0", head_keys_, {{keys_.public_key, "m"}}}, events);
    server_ = join("server", GetParam() ? "tcp://127.0.0.1:0" : "");
    client_ = join("client", "");
    server_->runtime.spawn<Ledger>("ledger");
  }
  std::unique_ptr<Place> join(const std::string& name, const std::string& listen) {
    auto place = std::make_unique<Place>();
    NodeInfo info;
    info.name = name;
    info.kind = "worker";
    Node::Member member{head_.node->endpoint(), head_keys_.public_key, keys_};
    member.listen = listen;
    member.allowed = {{keys_.public_key, "m"}};
    place->node = std::make_unique<Node>(place->runtime, info, member);
    place->node->wait_joined(10s);
    return place;
  }
  Handle<Ledger> ledger() { return client_->node->find<Ledger>("server", "ledger"); }

  const comm::LinkKeys head_keys_ = comm::make_link_keys(), keys_ = comm::make_link_keys();
  Place head_;
  std::unique_ptr<Place> server_, client_;
};

INSTANTIATE_TEST_SUITE_P(Routes, DirectTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "direct" : "by_the_head"; });

TEST_P(DirectTest, TheHeadCarriesCallsOnlyWhereThereIsNoOtherWay) {
  const auto remote = ledger();
  remote.call(&Ledger::note, 0).get();
  const auto before = head_.node->counters().received;
  for (int i = 0; i < 100; ++i) remote.call(&Ledger::note, i).get();
  const auto carried = head_.node->counters().received - before;
  if (GetParam()) {
    EXPECT_LT(carried, 10u);  // news of the change of route may still come by it
  } else {
    EXPECT_GE(carried, 200u);
  }
}

TEST_P(DirectTest, CallsKeepTheirOrderWhileTheRouteChanges) {
  const auto remote = client_->node->attach<Ledger>("server", "ledger");  // its own link is not there yet
  std::vector<Future<std::int64_t>> futures;
  std::vector<std::int64_t> expected;
  for (int i = 0; i < 20'000; ++i) {
    futures.push_back(remote.call(&Ledger::note, i));
    expected.push_back(i);
    if (i % 997 == 0) futures.back().wait_for(10s);  // nothing under way: now it may change
  }
  ASSERT_TRUE(wait_all(futures, 60s));
  EXPECT_EQ(remote.call(&Ledger::notes).get(), expected);
}

TEST_P(DirectTest, LongPayloadsArriveInOrderBesideShortOnes) {
  const auto remote = ledger();
  const std::int64_t floats = 10 << 20;  // 40 MiB: parts and credits
  auto heavy = remote.call(&Ledger::weigh, torch::ones({floats}), 1);
  auto light = remote.call(&Ledger::note, 2);
  auto small = remote.call(&Ledger::weigh, torch::ones({3}), 3);
  EXPECT_EQ(heavy.get(), static_cast<double>(floats));
  EXPECT_EQ(small.get(), 3);
  EXPECT_THAT(remote.call(&Ledger::notes).get(), ElementsAre(1, 2, 3));
  auto made = remote.call(&Ledger::make, floats).get();
  EXPECT_EQ(made.numel(), floats);
  EXPECT_EQ(made.sum().item<double>(), static_cast<double>(floats));
  made.add_(1);  // it is the receiver's own
  EXPECT_EQ(made[0].item<double>(), 2);
}

TEST_P(DirectTest, ACallThatIsCancelledBeforeItBeganIsNeverRun) {
  const auto remote = ledger();
  std::latch begun(1), go(1);
  const auto local = server_->runtime.find<Ledger>("ledger");
  local.run([&](Ledger&) {
    begun.count_down();
    go.wait();
  });
  begun.wait();
  auto given_up = remote.call(&Ledger::note, 1);
  auto kept = remote.call(&Ledger::note, 2);
  EXPECT_TRUE(given_up.cancel());
  EXPECT_THROW(given_up.get(), CallCancelled);
  // Its cancellation has arrived once something sent after it is in the mailbox.
  auto last = remote.call(&Ledger::note, 3);
  while (local.cell().queued() < 3) std::this_thread::yield();  // a cancelled one stays until its turn
  go.count_down();
  EXPECT_EQ(last.get(), 3);
  EXPECT_THAT(remote.call(&Ledger::notes).get(), ElementsAre(2, 3));
}

TEST_P(DirectTest, AnswersComeBeforeTheNewsOfAnOrderlyEnd) {
  const auto remote = ledger();
  std::vector<Future<std::int64_t>> futures;
  for (int i = 0; i < 500; ++i) futures.push_back(remote.call(&Ledger::note, i));
  auto result = remote.call(&Ledger::make, 4 << 20);
  remote.stop().get();
  for (auto& future : futures) EXPECT_NO_THROW(future.get());
  EXPECT_EQ(result.get().numel(), 4 << 20);
  EXPECT_THROW(remote.call(&Ledger::note, 1).get(), ActorDied);
}

TEST_P(DirectTest, ADeadProcessIsReportedWithTheHeadsCause) {
  const auto remote = ledger();
  auto held = remote.call(&Ledger::hold);
  remote.call(&Ledger::note, 1).get();
  server_->node.reset();
  EXPECT_FALSE(held.wait_for(50ms)) << "nobody guesses";
  head_.node->declare_lost("server", "signal 9 (Killed)");
  EXPECT_THAT([&] { held.get(); }, ThrowsMessage<ActorDied>(HasSubstr("signal 9")));
}

TEST_P(DirectTest, APoolPrefersMembersWithFewCallsUnderWay) {
  server_->runtime.spawn<Ledger>("other");
  ActorPool<Ledger> pool("pool", {ledger(), client_->node->find<Ledger>("server", "other")});
  auto busy = pool.member(0).call(&Ledger::hold);
  for (int i = 0; i < 3; ++i) pool.call(&Ledger::note, i).get();
  EXPECT_EQ(pool.member(1).call(&Ledger::notes).get().size(), 3u);
  pool.member(0).call(&Ledger::open).get();
  busy.get();
}

TEST(TransfersTest, APayloadBeyondTheLimitIsRefusedBeforeItsBytesCome) {
  EXPECT_THAT(too_long("its arguments", kLongestPayload + 1), HasSubstr("4096 MiB"));
  EXPECT_EQ(too_long("its arguments", kLongestPayload), "");
  std::vector<wire::Envelope> sent;
  Transfers transfers([&](wire::Envelope& envelope) {
    sent.push_back(envelope);
    return std::string();
  });
  wire::Envelope part, whole;
  part.set_from("liar");
  part.mutable_part()->set_transfer(7);
  part.mutable_part()->set_envelope("x");
  part.mutable_part()->set_total(kLongestPayload + 1);
  part.mutable_part()->set_bytes("abc");
  EXPECT_FALSE(transfers.arrived(part, &whole));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to(), "liar");
  EXPECT_NE(sent[0].credit().refused(), "");
}

TEST(TransfersTest, AFewPartsAreUnderWayAtATime) {
  std::vector<wire::Envelope> sent;
  Transfers transfers([&](wire::Envelope& envelope) {
    sent.push_back(envelope);
    return std::string();
  });
  Letter call;
  call.envelope.set_to("b");
  call.envelope.mutable_call()->set_actor("a");
  call.envelope.mutable_call()->set_arguments(std::string(20 << 20, 'x'));
  EXPECT_TRUE(transfers.take(call));
  EXPECT_EQ(sent.size(), Transfers::kUnderWay);
  Letter later;
  later.envelope.set_to("b");
  later.envelope.mutable_call()->set_actor("a");
  EXPECT_TRUE(transfers.take(later)) << "behind the long one";
  Letter elsewhere;
  elsewhere.envelope.set_to("b");
  elsewhere.envelope.mutable_call()->set_actor("c");
  EXPECT_FALSE(transfers.take(elsewhere));
  Transfers receiver([](wire::Envelope&) { return std::string(); });
  wire::Envelope whole;
  bool complete = false;
  for (std::size_t i = 0; i < sent.size() && sent[i].has_part(); ++i) {
    complete = receiver.arrived(sent[i], &whole);
    wire::Credit credit;
    credit.set_transfer(sent[i].part().transfer());
    transfers.credited("b", credit);
    EXPECT_LE(sent.size(), i + 1 + Transfers::kUnderWay);
  }
  EXPECT_TRUE(complete);
  EXPECT_EQ(whole.call().arguments().size(), 20u << 20);
  EXPECT_EQ(sent.back().call().actor(), "a") << "then what waited";
}

TEST(OutboxTest, SeveralEnvelopesOfOneMessageAreToldApartAndGarbageIsNone) {
  std::vector<std::string> messages, envelopes;
  std::mutex mutex;
  std::latch blocked(1), go(1);
  Flusher flusher;
  auto box = std::make_shared<Outbox>(flusher, [&](std::string message) -> comm::Status {
    if (message == "first") {
      blocked.count_down();
      go.wait();
    }
    std::lock_guard lock(mutex);
    messages.push_back(std::move(message));
    return {};
  });
  std::thread sender([&] { box->send("first", true); });
  blocked.wait();
  go.count_down();
  sender.join();
  for (int i = 0; i < 1000; ++i) box->send(std::to_string(i + 1), false);
  for (std::size_t got = 0; got < 1001;) {
    std::lock_guard lock(mutex);
    envelopes.clear();
    for (const auto& message : messages)
      EXPECT_TRUE(each_envelope(message, [&](std::string_view one) { envelopes.emplace_back(one); }));
    got = envelopes.size();
  }
  EXPECT_EQ(envelopes[0], "first");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(envelopes[static_cast<std::size_t>(i) + 1], std::to_string(i + 1));
  const auto ignore = [](std::string_view) {};
  EXPECT_FALSE(each_envelope("", ignore));
  EXPECT_FALSE(each_envelope(std::string_view("\0\1", 2), ignore));
  EXPECT_FALSE(each_envelope(std::string_view("\0\xff\xff\xff\xff", 5), ignore));
}

// --- several threads for one actor ---

class Meeting final : public Actor {
 public:
  explicit Meeting(std::atomic<int>* stops = nullptr) : stops_(stops) {}
  void meet(std::reference_wrapper<std::latch> all) { all.get().arrive_and_wait(); }
  int after() { return 7; }
  void on_stop() override {
    if (stops_) ++*stops_;
  }

 private:
  std::atomic<int>* stops_;
};

TEST(ConcurrencyTest, MethodsRunAtOnceWhereAskedAndTheEndIsOne) {
  std::atomic<int> stops{0};
  Runtime runtime;
  ActorOptions options;
  options.name = "meeting";
  options.max_concurrency = 3;
  const auto meeting = runtime.spawn<Meeting>(options, &stops);
  for (int round = 0; round < 50; ++round) {
    std::latch three(3);
    std::vector<Future<void>> futures;
    for (int i = 0; i < 3; ++i) futures.push_back(meeting.call(&Meeting::meet, std::ref(three)));
    ASSERT_TRUE(wait_all(futures, 20s));
  }
  EXPECT_EQ(meeting.call(&Meeting::after).get(), 7);
  meeting.stop().get();
  EXPECT_EQ(stops, 1);
  options.max_concurrency = 0;
  EXPECT_THROW(runtime.spawn<Meeting>(options), Error);
}

TEST(ConcurrencyTest, AKilledOneEndsWhenItsLastMethodHas) {
  std::atomic<int> stops{0};
  Runtime runtime;
  ActorOptions options;
  options.name = "meeting";
  options.max_concurrency = 2;
  const auto meeting = runtime.spawn<Meeting>(options, &stops);
  std::latch open(2);
  auto held = meeting.call(&Meeting::meet, std::ref(open));
  while (meeting.cell().queued() > 0) std::this_thread::yield();  // it has begun
  meeting.kill("enough");
  EXPECT_THROW(held.get(), ActorDied);
  auto ended = meeting.stop();
  EXPECT_EQ(stops, 0);
  open.count_down();
  ended.get();
  EXPECT_EQ(stops, 1);
}

}  // namespace
}  // namespace nestor::actors::remote
