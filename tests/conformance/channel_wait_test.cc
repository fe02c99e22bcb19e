// Waiting: deadlines, aborts, generations; threads.
#include <algorithm>
#include <latch>
#include <random>
#include <thread>
#include <utility>

#include "channel_suite.h"

namespace nestor::comm {

using namespace std::chrono_literals;

TEST_P(ChannelConformance, ADeadlineEndsAWaitAndTheReceiveStaysPosted) {
  auto lanes = fabric(2);
  Channel& b = lanes->channel(1);
  ASSERT_TRUE(b.post_recv(0, {1, 1, 1}).ok());
  Message message;
  const auto start = Clock::now();
  EXPECT_EQ(b.wait(0, {1, 1, 1}, start + 20ms, &message).code, Code::deadline);
  EXPECT_GE(Clock::now() - start, 20ms);
  EXPECT_LT(Clock::now() - start, 5s);
  EXPECT_EQ(b.wait(0, {1, 1, 1}, past(), &message).code, Code::deadline);
  EXPECT_FALSE(b.poll(0, {1, 1, 1}));
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 1}, {numbers(4)}, soon()).ok());
  ASSERT_TRUE(b.wait(0, {1, 1, 1}, soon(), &message).ok());
  EXPECT_EQ(first(message), 4);
}

TEST_P(ChannelConformance, WhatHasArrivedIsTakenWhateverTheDeadline) {
  auto lanes = fabric(2);
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 1}, {numbers(4)}, past()).ok()) << "nothing to wait for";
  Channel& b = lanes->channel(1);
  ASSERT_TRUE(b.post_recv(0, {1, 1, 1}).ok());
  while (!b.poll(0, {1, 1, 1})) std::this_thread::yield();
  Message message;
  EXPECT_TRUE(b.wait(0, {1, 1, 1}, past(), &message).ok());
}

TEST_P(ChannelConformance, AMessageEndsASleepingWait) {
  auto lanes = fabric(2);
  std::latch waiting(1);
  std::thread receiver([&] {
    Channel& b = lanes->channel(1);
    ASSERT_TRUE(b.post_recv(0, {1, 1, 1}).ok());
    Message message;
    EXPECT_EQ(b.wait(0, {1, 1, 1}, Clock::now() + 2ms, &message).code, Code::deadline);  // has slept once
    waiting.count_down();
    EXPECT_TRUE(b.wait(0, {1, 1, 1}, Deadline::max(), &message).ok());
    EXPECT_EQ(first(message), 6);
  });
  waiting.wait();
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 2}, {numbers(5)}, soon()).ok());  // another key wakes nobody
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 1}, {numbers(6)}, soon()).ok());
  receiver.join();
}

TEST_P(ChannelConformance, AbortFromAnotherThreadEndsAWaitWithItsCause) {
  auto lanes = fabric(2);
  Channel& b = lanes->channel(1);
  std::latch waiting(1);
  std::thread receiver([&] {
    ASSERT_TRUE(b.post_recv(0, {3, 1, 1}).ok());
    Message message;
    waiting.count_down();
    const Status status = b.wait(0, {3, 1, 1}, Deadline::max(), &message);
    EXPECT_EQ(status.code, Code::aborted);
    EXPECT_EQ(status.message, "lane 0 died");
  });
  waiting.wait();
  b.abort(3, "lane 0 died");
  b.abort(3, "later noise");  // the first cause stays
  receiver.join();
  Message message;
  EXPECT_EQ(b.post_recv(0, {3, 1, 2}).message, "lane 0 died");
  EXPECT_EQ(b.send(0, {2, 1, 2}, {}, soon()).code, Code::aborted);
  EXPECT_EQ(b.wait(0, {3, 1, 1}, soon(), &message).code, Code::aborted);
  EXPECT_TRUE(b.poll(0, {3, 1, 1}));
}

TEST_P(ChannelConformance, AbortDropsItsGenerationsAndSparesLaterOnes) {
  auto lanes = fabric(2);
  Channel &a = lanes->channel(0), &b = lanes->channel(1);
  auto old = std::make_shared<bool>(false), kept = std::make_shared<bool>(false);
  ASSERT_TRUE(a.send(1, {1, 1, 1}, {numbers(1, 1, old)}, soon()).ok());
  ASSERT_TRUE(a.send(1, {2, 1, 1}, {numbers(2, 1, old)}, soon()).ok());
  ASSERT_TRUE(a.send(1, {3, 1, 1}, {numbers(3, 1, kept)}, soon()).ok());
  b.abort(2, "resize");
  if (GetParam().by_reference) {
    EXPECT_TRUE(*old);
  }
  EXPECT_EQ(dropped(b, 2u), 2u);
  Message message;
  ASSERT_TRUE(receive(b, 0, {3, 1, 1}, &message).ok());
  EXPECT_EQ(first(message), 3);
  EXPECT_TRUE(a.send(1, {2, 1, 9}, {numbers(9)}, soon()).ok()) << "the sender has not heard of it";
  ASSERT_TRUE(a.send(1, {3, 1, 2}, {numbers(4)}, soon()).ok());  // behind it on any in-order transport
  ASSERT_TRUE(receive(b, 0, {3, 1, 2}, &message).ok());
  EXPECT_EQ(dropped(b, 3u), 3u);
}

TEST_P(ChannelConformance, ANewGenerationDropsOlderKeysAsStale) {
  auto lanes = fabric(2);
  Channel &a = lanes->channel(0), &b = lanes->channel(1);
  auto old = std::make_shared<bool>(false);
  ASSERT_TRUE(a.send(1, {1, 1, 1}, {numbers(1, 1, old)}, soon()).ok());
  ASSERT_TRUE(b.post_recv(0, {1, 1, 2}).ok());
  ASSERT_TRUE(a.send(1, {2, 1, 1}, {numbers(2)}, soon()).ok()) << "a peer may be ahead";
  b.set_generation(2);
  if (GetParam().by_reference) {
    EXPECT_TRUE(*old);
  }
  EXPECT_EQ(dropped(b, 1u), 1u);
  Message message;
  EXPECT_EQ(b.wait(0, {1, 1, 2}, soon(), &message).code, Code::stale);
  EXPECT_EQ(b.post_recv(0, {1, 1, 3}).code, Code::stale);
  EXPECT_EQ(b.send(0, {1, 1, 3}, {}, soon()).code, Code::stale);
  b.set_generation(1);  // never goes back
  EXPECT_EQ(b.post_recv(0, {1, 1, 3}).code, Code::stale);
  ASSERT_TRUE(receive(b, 0, {2, 1, 1}, &message).ok());
  EXPECT_EQ(first(message), 2);
}

TEST_P(ChannelConformance, AnAbortedStepCanBeRepeatedUnderANewGeneration) {
  auto lanes = fabric(2);
  Channel &a = lanes->channel(0), &b = lanes->channel(1);
  for (std::uint64_t generation = 1; generation <= 50; ++generation) {
    Message message;
    ASSERT_TRUE(a.send(1, {generation, 7, 1}, {numbers(static_cast<std::int64_t>(generation))}, soon()).ok());
    ASSERT_TRUE(receive(b, 0, {generation, 7, 1}, &message).ok());
    EXPECT_EQ(first(message), static_cast<std::int64_t>(generation));
    ASSERT_TRUE(a.send(1, {generation, 7, 2}, {numbers(0)}, soon()).ok());
    for (Channel* channel : {&a, &b}) {
      channel->abort(generation, "test");
      channel->set_generation(generation + 1);
    }
  }
  EXPECT_EQ(dropped(b, 50u), 50u);
}

TEST_P(ChannelConformance, FourLanesOfRandomTraffic) {
  // Every lane sends a message to every other in each round, in an order of its own, and receives in another.
  constexpr std::int32_t kLanes = 4;
  constexpr std::uint64_t kRounds = 500, kTags = 4;
  auto lanes = fabric(kLanes);
  std::vector<std::thread> threads;
  for (std::int32_t self = 0; self < kLanes; ++self) {
    threads.emplace_back([&, self] {
      Channel& channel = lanes->channel(self);
      std::mt19937 random(static_cast<unsigned>(self));
      std::vector<std::pair<std::int32_t, std::uint64_t>> edges;
      for (std::int32_t peer = 0; peer < kLanes; ++peer) {
        for (std::uint64_t tag = 0; tag < kTags && peer != self; ++tag) edges.emplace_back(peer, tag);
      }
      const auto value = [](std::int32_t from, std::int32_t to, std::uint64_t round, std::uint64_t tag) {
        return static_cast<std::int64_t>(((1000 * round + tag) * 1000 + static_cast<std::uint64_t>(from)) * 1000) + to;
      };
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        std::shuffle(edges.begin(), edges.end(), random);
        for (auto [peer, tag] : edges) {
          if (tag % 2 == 0) {
            ASSERT_TRUE(channel.post_recv(peer, {1, round, tag}).ok());
          }
        }
        for (auto [peer, tag] : edges) {
          ASSERT_TRUE(channel.send(peer, {1, round, tag}, {numbers(value(self, peer, round, tag))}, soon()).ok());
        }
        std::shuffle(edges.begin(), edges.end(), random);
        for (auto [peer, tag] : edges) {
          if (tag % 2 == 1) {
            ASSERT_TRUE(channel.post_recv(peer, {1, round, tag}).ok());
          }
          Message message;
          ASSERT_TRUE(channel.wait(peer, {1, round, tag}, soon(), &message).ok());
          ASSERT_EQ(first(message), value(peer, self, round, tag));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::int32_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(lanes->channel(lane).counters().received_messages, kRounds * kTags * (kLanes - 1));
    EXPECT_EQ(lanes->channel(lane).counters().sent_messages, kRounds * kTags * (kLanes - 1));
  }
}

TEST_P(ChannelConformance, AbortsUnderTrafficEndEveryWait) {
  // Lanes exchange without pause; generations are aborted from outside. Nobody hangs, nobody sees an old message.
  constexpr std::int32_t kLanes = 4;
  constexpr std::uint64_t kGenerations = 20;
  auto lanes = fabric(kLanes);
  std::latch started(kLanes);
  std::vector<std::thread> threads;
  for (std::int32_t self = 0; self < kLanes; ++self) {
    threads.emplace_back([&, self] {
      Channel& channel = lanes->channel(self);
      started.count_down();
      for (std::uint64_t generation = 1; generation <= kGenerations; ++generation) {
        for (std::uint64_t round = 0;; ++round) {
          const Key key{generation, round, 0};
          Message message;
          Status status = channel.send((self + 1) % kLanes, key, {numbers(static_cast<std::int64_t>(round))}, soon());
          if (status.ok()) status = receive(channel, (self + kLanes - 1) % kLanes, key, &message);
          if (!status.ok()) {
            ASSERT_EQ(status.code, Code::aborted) << status.message;
            break;
          }
          ASSERT_EQ(first(message), static_cast<std::int64_t>(round));
        }
      }
    });
  }
  started.wait();
  for (std::uint64_t generation = 1; generation <= kGenerations; ++generation) {
    const std::uint64_t before = lanes->channel(0).counters().received_messages;
    while (lanes->channel(0).counters().received_messages < before + 10) std::this_thread::yield();
    for (std::int32_t lane = 0; lane < kLanes; ++lane) lanes->channel(lane).abort(generation, "test");
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace nestor::comm
