#include <atomic>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <nestor/actors/remote/node.h>

// Long arguments and results between processes by UCX: what arrives, in which order, and what happens when it cannot.

namespace nestor::actors::remote {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

constexpr std::int64_t kMebi = 1 << 18;  // floats
constexpr const char* kShared = "posix,cma,self";

class Scale final : public Actor {
 public:
  static void describe(MethodTable<Scale>& table) {
    table.type("test_scale")
        .method("note", &Scale::note)
        .method("weigh", &Scale::weigh)
        .method("weigh_all", &Scale::weigh_all)
        .method("make", &Scale::make)
        .method("kept", &Scale::kept)
        .method("spoil", &Scale::spoil)
        .method("length", &Scale::length)
        .method("hold", &Scale::hold)
        .method("notes", &Scale::notes);
  }
  std::int64_t note(std::int64_t number) {
    notes_.push_back(number);
    return number;
  }
  double weigh(const torch::Tensor& tensor, std::int64_t number) {
    notes_.push_back(number);
    return tensor.sum().item<double>();
  }
  std::vector<double> weigh_all(const std::vector<torch::Tensor>& tensors) {
    std::vector<double> sums;
    for (const auto& tensor : tensors) sums.push_back(tensor.defined() ? tensor.sum().item<double>() : -1);
    return sums;
  }
  torch::Tensor make(std::int64_t floats) { return torch::ones({floats}); }
  torch::Tensor kept() { return kept_ = torch::ones({16 * kMebi}); }
  void spoil() { kept_.zero_(); }
  std::int64_t length(const std::string& text) { return static_cast<std::int64_t>(text.size()); }
  Future<void> hold(const torch::Tensor&) {
    held_.emplace_back();
    return held_.back().future();
  }
  std::vector<std::int64_t> notes() { return notes_; }

 private:
  std::vector<std::int64_t> notes_;
  torch::Tensor kept_;
  std::vector<Promise<void>> held_;
};

struct BulkPlace {
  Runtime runtime;
  std::unique_ptr<Node> node;
  std::mutex mutex;
  std::vector<std::string> notices;

  std::vector<std::string> said() {
    std::lock_guard lock(mutex);
    return notices;
  }
};

std::optional<comm::UcxOptions> by(const std::string& transports) {
  comm::UcxOptions options;
  options.transports = transports;
  return options;
}

std::unique_ptr<BulkPlace> join_bulk(const std::string& name, const std::string& head, const std::string& head_key,
                                     const comm::LinkKeys& keys, const std::optional<comm::UcxOptions>& transport,
                                     bool listens) {
  auto place = std::make_unique<BulkPlace>();
  NodeInfo info;
  info.name = name;
  info.kind = "worker";
  info.pid = ::getpid();
  Node::Member member{head, head_key, keys};
  if (listens) member.listen = "tcp://127.0.0.1:0";
  member.allowed = {{keys.public_key, "m"}};
  member.transport = transport;
  NodeEvents events;
  events.notice = [&at = *place](const std::string& text) {
    std::lock_guard lock(at.mutex);
    at.notices.push_back(text);
  };
  place->node = std::make_unique<Node>(place->runtime, info, member, events);
  place->node->wait_joined(10s);
  return place;
}

class BulkTest : public testing::Test {
 protected:
  BulkTest() {
    NodeEvents events;
    events.disconnected = [](const NodeInfo&, const std::string&) {};  // deaths are told by the tests
    head_.node = std::make_unique<Node>(head_.runtime, NodeInfo{},
                                        Node::Head{"tcp://127.0.0.1:0", head_keys_, {{keys_.public_key, "m"}}}, events);
  }
  Handle<Scale> meet(const std::optional<comm::UcxOptions>& servers, const std::optional<comm::UcxOptions>& clients) {
    server_ = join_bulk("server", head_.node->endpoint(), head_keys_.public_key, keys_, servers, true);
    client_ = join_bulk("client", head_.node->endpoint(), head_keys_.public_key, keys_, clients, false);
    server_->runtime.spawn<Scale>("scale");
    return client_->node->find<Scale>("server", "scale");
  }
  Handle<Scale> meet() { return meet(by(kShared), by(kShared)); }

  const comm::LinkKeys head_keys_ = comm::make_link_keys(), keys_ = comm::make_link_keys();
  BulkPlace head_;
  std::unique_ptr<BulkPlace> server_, client_;
};

TEST_F(BulkTest, LongTensorsTravelByUcxBothWays) {
  const auto scale = meet();
  const std::int64_t floats = 40 * kMebi;
  EXPECT_EQ(scale.call(&Scale::weigh, torch::ones({floats}), 1).get(), static_cast<double>(floats));
  EXPECT_GE(client_->node->bulk_bytes(), 4u * static_cast<std::uint64_t>(floats));
  auto made = scale.call(&Scale::make, floats).get();
  EXPECT_GE(server_->node->bulk_bytes(), 4u * static_cast<std::uint64_t>(floats));
  EXPECT_EQ(made.sum().item<double>(), static_cast<double>(floats));
  made.add_(1);  // it is the receiver's own
  EXPECT_EQ(made[0].item<double>(), 2);
  const auto kinds = std::vector<torch::Tensor>{
      torch::ones({3, kMebi}).t(), torch::Tensor(), torch::ones({2}),
      torch::ones({kMebi}, torch::kBool).view({2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}),
      torch::ones({kMebi}, torch::kInt64)};
  EXPECT_THAT(scale.call(&Scale::weigh_all, kinds).get(), ElementsAre(3.0 * kMebi, -1, 2, kMebi, kMebi));
  EXPECT_EQ(scale.call(&Scale::length, std::string(40 << 20, 'x')).get(), 40 << 20);
  EXPECT_THAT(client_->said(), IsEmpty());
  EXPECT_THAT(server_->said(), IsEmpty());
}

TEST_F(BulkTest, CallsKeepTheirOrderWhateverWayTheyGo) {
  const auto scale = meet();
  std::vector<std::int64_t> expected;
  std::vector<Future<double>> longs;
  std::vector<Future<std::int64_t>> shorts;
  std::int64_t number = 0;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < round * 20; ++i) {
      expected.push_back(++number);
      shorts.push_back(scale.call(&Scale::note, number));
    }
    for (const std::int64_t floats : {kMebi / 8, 2 * kMebi, kMebi / 2}) {
      expected.push_back(++number);
      longs.push_back(scale.call(&Scale::weigh, torch::full({floats}, number), number));
    }
  }
  ASSERT_TRUE(wait_all(shorts, 60s));
  ASSERT_TRUE(wait_all(longs, 60s));
  EXPECT_EQ(scale.call(&Scale::notes).get(), expected);
  EXPECT_GT(client_->node->bulk_bytes(), 0u);
}

TEST_F(BulkTest, SeveralCallersAndActorsAtOnce) {
  meet();
  server_->runtime.spawn<Scale>("other");
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      const auto scale = client_->node->find<Scale>("server", caller % 2 == 0 ? "scale" : "other");
      for (int i = 0; i < 10; ++i) {
        const std::int64_t floats = (1 + 3 * i) * kMebi / 4;
        const double sum = scale.call(&Scale::weigh, torch::full({floats}, caller + 1), i).get();
        const auto made = scale.call(&Scale::make, floats).get();
        if (sum == static_cast<double>((caller + 1) * floats) && made.numel() == floats) ++right;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(right, 40);
}

TEST_F(BulkTest, WhatIsSentIsWhatItWasAtTheCall) {
  const auto scale = meet();
  for (int i = 0; i < 5; ++i) {
    auto tensor = torch::ones({16 * kMebi});
    auto sum = scale.call(&Scale::weigh, tensor, i);
    tensor.zero_();
    EXPECT_EQ(sum.get(), 16.0 * kMebi);
    auto kept = scale.call(&Scale::kept);
    auto spoilt = scale.call(&Scale::spoil);
    EXPECT_EQ(kept.get().sum().item<double>(), 16.0 * kMebi);
    spoilt.get();
  }
}

TEST_F(BulkTest, ShortCallsOfOtherActorsDoNotWait) {
  const auto scale = meet();
  server_->runtime.spawn<Scale>("other");
  const auto other = client_->node->find<Scale>("server", "other");
  std::vector<Future<double>> longs;
  for (int i = 0; i < 3; ++i) longs.push_back(scale.call(&Scale::weigh, torch::ones({20 * kMebi}), i));
  EXPECT_EQ(other.call(&Scale::note, 7).get(), 7);
  auto behind = scale.call(&Scale::note, 3);
  EXPECT_EQ(behind.get(), 3);
  EXPECT_TRUE(longs.back().ready()) << "it came before";
  EXPECT_THAT(scale.call(&Scale::notes).get(), ElementsAre(0, 1, 2, 3));
}

TEST_F(BulkTest, ACallGivenUpBeforeItBeganIsNeverRun) {
  const auto scale = meet();
  std::latch begun(1), go(1);
  server_->runtime.find<Scale>("scale").run([&](Scale&) {
    begun.count_down();
    go.wait();
  });
  begun.wait();
  auto first = scale.call(&Scale::weigh, torch::ones({8 * kMebi}), 1);
  auto given_up = scale.call(&Scale::weigh, torch::ones({8 * kMebi}), 2);
  EXPECT_TRUE(given_up.cancel());
  EXPECT_THROW(given_up.get(), CallCancelled);
  auto last = scale.call(&Scale::note, 3);
  // Whatever was sent before is there once this is, which another actor answers.
  server_->runtime.spawn<Scale>("other");
  client_->node->find<Scale>("server", "other").call(&Scale::weigh, torch::ones({8 * kMebi}), 1).get();
  while (server_->runtime.find<Scale>("scale").cell().queued() < 2) std::this_thread::yield();
  go.count_down();
  EXPECT_EQ(last.get(), 3);
  EXPECT_THAT(scale.call(&Scale::notes).get(), ElementsAre(1, 3));
}

TEST_F(BulkTest, AnActorKilledMeanwhileFailsItsCalls) {
  const auto scale = meet();
  std::vector<Future<void>> held;
  for (int i = 0; i < 4; ++i) held.push_back(scale.call(&Scale::hold, torch::ones({10 * kMebi})));
  scale.kill("enough");
  for (auto& future : held) EXPECT_THAT([&] { future.get(); }, ThrowsMessage<ActorDied>(HasSubstr("enough")));
}

TEST_F(BulkTest, WithoutACommonTransportPartsGoByTheLink) {
  for (const auto& [servers, clients] :
       {std::pair{by(kShared), by("tcp,self")}, {std::nullopt, by(kShared)}, {by(kShared), by("none_such,self")}}) {
    const auto scale = meet(servers, clients);
    std::vector<Future<double>> longs;
    std::vector<std::int64_t> expected;
    for (int i = 0; i < 6; ++i) {
      longs.push_back(scale.call(&Scale::weigh, torch::ones({i % 2 == 0 ? 2 * kMebi : kMebi / 2}), i));
      expected.push_back(i);
    }
    for (int i = 0; i < 6; ++i) EXPECT_EQ(longs[i].get(), i % 2 == 0 ? 2 * kMebi : kMebi / 2);
    EXPECT_EQ(scale.call(&Scale::make, 3 * kMebi).get().numel(), 3 * kMebi);
    EXPECT_EQ(scale.call(&Scale::notes).get(), expected);
    EXPECT_THAT(client_->said(), ElementsAre(HasSubstr("travel by the control link: ")));
    client_.reset();
    server_.reset();
    head_.node->declare_lost("server", "the next round");
    head_.node->declare_lost("client", "the next round");
  }
}

// --- the other process dies ---

/// This program started again, as the server: what the environment says.
TEST(BulkPeer, DISABLED_Main) {
  const auto word = [](const char* name) { return std::string(std::getenv(name)); };
  const auto place =
      join_bulk("server", word("BULK_HEAD"), word("BULK_HEAD_KEY"),
                comm::LinkKeys{word("BULK_PUBLIC"), word("BULK_SECRET")}, by(word("BULK_TRANSPORTS")), true);
  place->runtime.spawn<Scale>("scale");
  std::ofstream(word("BULK_READY")) << ::getpid();
  for (;;) ::pause();
}

class BulkDeathTest : public BulkTest, public testing::WithParamInterface<std::tuple<std::string, int>> {};

INSTANTIATE_TEST_SUITE_P(Ends, BulkDeathTest,
                         testing::Combine(testing::Values(kShared, "tcp,self"), testing::Values(SIGKILL, SIGSTOP)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == kShared ? "shared_" : "tcp_") +
                                  (std::get<1>(info.param) == SIGKILL ? "killed" : "stopped");
                         });

TEST_P(BulkDeathTest, CallsUnderWayFailWithTheCause) {
  const auto& [transports, signal] = GetParam();
  std::string ready = testing::TempDir() + "bulk_XXXXXX";
  ASSERT_NE(::mkdtemp(ready.data()), nullptr);
  ready += "/ready";
  ::setenv("BULK_HEAD", head_.node->endpoint().c_str(), 1);
  ::setenv("BULK_HEAD_KEY", head_keys_.public_key.c_str(), 1);
  ::setenv("BULK_PUBLIC", keys_.public_key.c_str(), 1);
  ::setenv("BULK_SECRET", keys_.secret_key.c_str(), 1);
  ::setenv("BULK_TRANSPORTS", transports.c_str(), 1);
  ::setenv("BULK_READY", ready.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", "unit_actors", "--gtest_filter=BulkPeer.DISABLED_Main", "--gtest_also_run_disabled_tests",
            nullptr);
    ::_exit(127);
  }
  client_ = join_bulk("client", head_.node->endpoint(), head_keys_.public_key, keys_, by(transports), false);
  while (!std::ifstream(ready).good()) std::this_thread::yield();
  const auto scale = client_->node->find<Scale>("server", "scale");
  scale.call(&Scale::weigh, torch::ones({kMebi + 1}), 0).get();
  const auto before = client_->node->bulk_bytes();
  EXPECT_GT(before, 0u);
  std::vector<Future<double>> longs;
  std::vector<Future<torch::Tensor>> made;
  for (int i = 0; i < 4; ++i) {
    longs.push_back(scale.call(&Scale::weigh, torch::ones({50 * kMebi}), i));
    made.push_back(scale.call(&Scale::make, 50 * kMebi));
  }
  longs[0].get();
  ::kill(child, signal);
  if (signal == SIGKILL) ::waitpid(child, nullptr, 0);
  const auto start = std::chrono::steady_clock::now();
  head_.node->declare_lost("server", "the test ended it");
  EXPECT_THAT([&] { longs.back().get(); }, ThrowsMessage<ActorDied>(HasSubstr("the test ended it")));
  EXPECT_THAT([&] { made.back().get(); }, ThrowsMessage<ActorDied>(HasSubstr("the test ended it")));
  for (std::size_t i = 1; i < 3; ++i) EXPECT_TRUE(longs[i].wait_for(5s) && made[i].wait_for(5s));
  client_.reset();  // with all that was under way
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);
  ::kill(child, SIGKILL);
  if (signal != SIGKILL) ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace nestor::actors::remote
