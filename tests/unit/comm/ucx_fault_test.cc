// Peers that die or stop in the middle of a transfer, as processes; and what the others still do.
#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/ucx.h>

#include "ucx_ends.h"
#include "ucx_peer.h"

namespace nestor::comm {
namespace {

using namespace std::chrono_literals;
using test::first;
using test::kStreamCount;
using test::numbers;
using test::PeerProcess;

/// Long enough that only a hang reaches it.
Deadline soon() {
  return Clock::now() + 60s;
}

class UcxFault : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  UcxFault() {
    options_.transports = std::get<0>(GetParam());
    options_.secret = 99;
    options_.window = std::size_t{32} << 20;
    options_.stall = 1500ms;
    ours_ = open_ucx_channel(0, 3, options_);
  }

  /// Hurts the victim; returns within how long it must be noticed.
  Clock::duration strike(PeerProcess& victim) {
    const int signal = std::get<1>(GetParam());
    victim.signal(signal);  // killed, it stays a zombie: nobody waits for it here
    return signal == SIGKILL ? Clock::duration(5s) : Clock::duration(options_.stall + 5s);
  }

  /// A bystander still answers.
  void expect_answers(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      Message message;
      ASSERT_TRUE(ours_->post_recv(2, {1, i, 102}).ok());
      ASSERT_TRUE(ours_->send(2, {1, i, 2}, {numbers(static_cast<std::int64_t>(i), 1 << 18)}, soon()).ok());
      const Status status = ours_->wait(2, {1, i, 102}, soon(), &message);
      ASSERT_TRUE(status.ok()) << status.message;
      ASSERT_EQ(first(message), static_cast<std::int64_t>(i));
    }
  }

  UcxOptions options_;
  std::unique_ptr<UcxChannel> ours_;
};

TEST_P(UcxFault, WhileItReceives) {
  PeerProcess bystander(2, "echo", options_, *ours_), victim(1, "sink", options_, *ours_);
  expect_answers(0, 5);
  std::vector<std::weak_ptr<const void>> memory;
  Status status;
  Clock::time_point struck{};
  Clock::duration limit{};
  for (std::uint64_t i = 0; status.ok(); ++i) {
    if (i == 20) {  // more than the window has gone, so the victim is in the midst of receiving
      struck = Clock::now();
      limit = strike(victim);
    }
    Message message{numbers(static_cast<std::int64_t>(i), kStreamCount)};
    memory.push_back(message[0].owner);
    status = ours_->send(1, {1, i, 1}, std::move(message), soon());
    ASSERT_LT(i, 1000u);
  }
  EXPECT_EQ(status.code, Code::peer_lost) << status.message;
  EXPECT_NE(status.message.find("lane 1"), std::string::npos) << status.message;
  EXPECT_LT(Clock::now() - struck, limit) << status.message;
  expect_answers(5, 10);
  // Over TCP requests end as cancelled within some rounds of progress.
  EXPECT_TRUE(test::until(*ours_, [&] {
    return std::all_of(memory.begin(), memory.end(), [](const auto& owner) { return owner.expired(); });
  })) << "the buffers under way are free";
  EXPECT_EQ(ours_->send(1, {1, 5000, 1}, {}, soon()).code, Code::peer_lost);
}

TEST_P(UcxFault, WhileItSends) {
  PeerProcess bystander(2, "echo", options_, *ours_), victim(1, "stream", options_, *ours_);
  expect_answers(0, 5);
  constexpr std::uint64_t kAhead = 4;
  Status status;
  Clock::time_point struck{};
  Clock::duration limit{};
  for (std::uint64_t i = 0; i < kAhead; ++i) ASSERT_TRUE(ours_->post_recv(1, {1, i, 1}).ok());
  for (std::uint64_t i = 0; status.ok(); ++i) {
    if (i == 20) {
      struck = Clock::now();
      limit = strike(victim);
    }
    Message message;
    status = ours_->wait(1, {1, i, 1}, soon(), &message);
    if (status.ok()) {
      ASSERT_EQ(first(message), static_cast<std::int64_t>(i));
      ASSERT_EQ(static_cast<const std::int64_t*>(message[0].data)[kStreamCount - 1], static_cast<std::int64_t>(i));
      ASSERT_TRUE(ours_->post_recv(1, {1, i + kAhead, 1}).ok());
    }
    ASSERT_LT(i, 1000u);
  }
  EXPECT_EQ(status.code, Code::peer_lost) << status.message;
  EXPECT_LT(Clock::now() - struck, limit) << status.message;
  expect_answers(5, 10);
}

TEST_P(UcxFault, ANewProcessTakesTheLane) {
  PeerProcess bystander(2, "echo", options_, *ours_);
  auto victim = std::make_unique<PeerProcess>(1, "echo", options_, *ours_);
  Message message;
  ASSERT_TRUE(ours_->post_recv(1, {1, 0, 101}).ok());
  ASSERT_TRUE(ours_->send(1, {1, 0, 1}, {numbers(1, 1)}, soon()).ok());
  ASSERT_TRUE(ours_->wait(1, {1, 0, 101}, soon(), &message).ok());
  ASSERT_TRUE(ours_->post_recv(1, {1, 1, 101}).ok());
  strike(*victim);
  EXPECT_EQ(ours_->wait(1, {1, 1, 101}, soon(), &message).code, Code::peer_lost);
  victim.reset();  // a stopped one is killed before its successor comes
  PeerProcess successor(1, "echo", options_, *ours_, 2);
  ASSERT_TRUE(ours_->post_recv(1, {2, 0, 101}).ok());
  ASSERT_TRUE(ours_->send(1, {2, 0, 1}, {numbers(7, kStreamCount)}, soon()).ok());
  const Status status = ours_->wait(1, {2, 0, 101}, soon(), &message);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(first(message), 7);
  expect_answers(0, 3);
}

std::string name_of(const testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  const std::string transports = std::get<0>(info.param);
  return (transports.starts_with("tcp") ? std::string("Tcp") : std::string("SharedMemory")) +
         (std::get<1>(info.param) == SIGKILL ? "Killed" : "Stopped");
}

INSTANTIATE_TEST_SUITE_P(Processes, UcxFault,
                         testing::Combine(testing::Values("posix,cma,self", "tcp,self"),
                                          testing::Values(SIGKILL, SIGSTOP)),
                         name_of);

}  // namespace
}  // namespace nestor::comm
